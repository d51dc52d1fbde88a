"""What the service tests share: the API's stubs, a server to talk to, and numpy as the oracle."""
