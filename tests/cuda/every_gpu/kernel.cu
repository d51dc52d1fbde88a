__global__ void Nothing() {}
