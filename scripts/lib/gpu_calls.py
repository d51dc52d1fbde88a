"""The calls of one server, for messages that gpu_service.py makes from the compiled proto."""


class Calls:
    """A channel to a server on this machine, and its methods."""

    def __init__(self, messages, port):
        import grpc
        options = [("grpc.max_send_message_length", 80 << 20), ("grpc.max_receive_message_length", 80 << 20)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
        service = "/histogram.v1.HistogramService/"
        self.compute = self.channel.unary_unary(
            service + "Compute", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=messages("ComputeResponse").FromString)
        self.compute_many = self.channel.stream_stream(
            service + "ComputeMany", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=messages("ComputeManyResponse").FromString)
