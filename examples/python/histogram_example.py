"""The histogram of a file, in Python. The stubs are made from the .proto as the program starts.

pip install grpcio grpcio-tools
python3 examples/python/histogram_example.py FILE [SERVER]
"""
import pathlib
import sys

import grpc

if len(sys.argv) not in (2, 3):
    sys.exit(__doc__)
path, server = (sys.argv[1:] + ["127.0.0.1:50051"])[:2]
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "proto"))

# The whole call:
messages, services = grpc.protos_and_services("histogram/v1/histogram.proto")
channel = grpc.insecure_channel(server)
request = messages.ComputeRequest(payload=pathlib.Path(path).read_bytes())
try:
    reply = services.HistogramServiceStub(channel).Compute(request)
except grpc.RpcError as error:
    sys.exit(f"{error.code().name}: {error.details()}")

histogram = reply.histogram
assert sum(histogram.counts) == histogram.samples == len(request.payload)
print(f"{histogram.samples} bytes, counted by {reply.receipt.kernel} on {reply.receipt.backend}")
for value, count in sorted(enumerate(histogram.counts), key=lambda pair: -pair[1])[:5]:
    if count:
        print(f"{value:4} {chr(value)!r:>7} {count}")
