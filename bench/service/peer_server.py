#!/usr/bin/env python3
"""What a user would write instead of this service: Compute of the same API in Python, with numpy or torch.

  bench/service/peer_server.py numpy|torch ADDRESS PORT_FILE --descriptor histogram.binpb

Counts 256 bins of bytes, whatever the request asks for. torch counts on the GPU where it sees one. Needs
grpcio, protobuf and numpy, and torch for that mode; the descriptor is protoc's --descriptor_set_out.
"""
import argparse
import concurrent.futures
import os
import pathlib
import threading

import grpc
import numpy
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

WORKERS = 16


def counter(mode):
    """From the bytes of a payload to a list of 256 counts."""
    if mode == "numpy":
        return lambda data: numpy.bincount(numpy.frombuffer(data, numpy.uint8), minlength=256).tolist()
    import torch
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return lambda data: torch.bincount(torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device),
                                       minlength=256).tolist()


def messages(descriptor):
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(descriptor).read_bytes()).file:
        pool.Add(file)
    return (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"histogram.v1.{name}"))
            for name in ("ComputeRequest", "ComputeResponse"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("numpy", "torch"))
    parser.add_argument("address")
    parser.add_argument("port_file", type=pathlib.Path)
    parser.add_argument("--descriptor", required=True)
    options = parser.parse_args()
    request_type, response_type = messages(options.descriptor)
    count = counter(options.mode)
    count(b"loads what the first count loads")

    def compute(request, _):
        response = response_type()
        response.histogram.samples = len(request.payload)
        response.histogram.counts.extend(count(request.payload))
        return response

    method = grpc.unary_unary_rpc_method_handler(
        compute, request_deserializer=request_type.FromString, response_serializer=response_type.SerializeToString)
    handler = grpc.method_handlers_generic_handler("histogram.v1.HistogramService", {"Compute": method})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(WORKERS), handlers=[handler],
                         options=[("grpc.max_receive_message_length", -1)])
    port = server.add_insecure_port(options.address)
    server.start()
    aside = options.port_file.with_suffix(".new")
    aside.write_text(f"address={options.address.rsplit(':', 1)[0]}:{port}\n")
    os.rename(aside, options.port_file)
    threading.Event().wait()  # until SIGTERM


if __name__ == "__main__":
    main()
