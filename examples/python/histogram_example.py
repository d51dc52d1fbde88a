"""The histogram of a file: a numpy array in, a numpy array of counts out.

pip install grpcio grpcio-tools grpcio-status numpy
python3 examples/python/histogram_example.py FILE [SERVER]
"""
import pathlib
import sys

import grpc
import numpy as np
from google.rpc import error_details_pb2
from grpc_status import rpc_status

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
path, server = (sys.argv[1:] + ["127.0.0.1:50051"])[:2]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "proto"))
messages, services = grpc.protos_and_services("histogram/v1/histogram.proto")  # makes the stubs

samples = np.fromfile(path, dtype=np.uint8)
# None here: the server has its own.
limits = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
try:
    with grpc.insecure_channel(server, options=limits) as channel:
        request = messages.ComputeRequest(payload=samples.tobytes())
        reply = services.HistogramServiceStub(channel).Compute(request, timeout=30)  # seconds
except grpc.RpcError as error:
    status = rpc_status.from_call(error)  # None where no server has answered
    for detail in status.details if status else ():
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo.FromString(detail.value)
            print(f"reason {info.reason}, {dict(sorted(info.metadata.items()))}", file=sys.stderr)
    sys.exit(f"{error.code().name}: {error.details()}")

counts = np.fromiter(reply.histogram.counts, dtype=np.uint64)
print(f"{counts.sum()} bytes, counted by {reply.receipt.kernel} on {reply.receipt.backend}")
for value in np.argsort(-counts.astype(np.int64), kind="stable")[:5]:
    print(f"{value:4} {chr(value)!r:>7} {counts[value]}")
