"""Who may include what. Reads every source file of the repository given as the only argument.

The rules are those of docs/ARCHITECTURE.md: kernels/ counts samples and knows no service; CUDA stays in
kernels/cuda; the library's public headers include std and <histogram/...> only; batching is pure; rpc/
knows nothing of histograms, request/ nothing of gRPC, and only metrics/ knows Prometheus.
"""

import pathlib
import re
import sys

SOURCES = {".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh", ".inc"}
FOLDERS = ("kernels", "forms", "server", "client", "python")

GRPC = r"(grpc|grpcpp|google/protobuf|google/rpc)/|\.pb\.h$"
PROMETHEUS = r"(prometheus|civetweb)"
BOOST = r"boost/"
CUDA = r"(cuda|cub|thrust|nvml|cooperative_groups|nv)[/_.a-z]|kernels/cuda/"
CLOCK = r"(chrono|ctime|time\.h|sys/time\.h|absl/time/.*)$"
KERNELS_PUBLIC = r"histogram/(?!v1/|client\.h)"
THIRD_PARTY = GRPC + "|" + PROMETHEUS + r"|(spdlog|CLI|nlohmann|png|boost/)"

# Folder (the longest match wins) -> what must not be included, and, among the project's own headers,
# what may be. None: anything that is not forbidden.
RULES = {
    "kernels": (rf"{THIRD_PARTY}|{CUDA}", rf"kernels/|{KERNELS_PUBLIC}"),
    # std has neither a dot nor a slash in its headers' names.
    "kernels/include": (rf"(?!{KERNELS_PUBLIC})[^/.]*[/.]", rf"{KERNELS_PUBLIC}"),
    "kernels/tuning": (rf"{THIRD_PARTY}|{CUDA}|{CLOCK}", rf"kernels/[a-z_]+\.h|kernels/tuning/|{KERNELS_PUBLIC}"),
    "kernels/cpu": (rf"{THIRD_PARTY}|{CUDA}", rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda": (THIRD_PARTY, rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda/base": (rf"{THIRD_PARTY}|kernels/cuda/(?!base/)", rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda/kernels": (rf"{THIRD_PARTY}|kernels/cuda/(?!(base|kernels)/)", rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda/plan": (rf"{THIRD_PARTY}|kernels/cuda/(device|backend)/", rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda/device": (rf"{THIRD_PARTY}|kernels/cuda/backend/", rf"kernels/|{KERNELS_PUBLIC}"),
    "kernels/cuda/backend": (rf"{THIRD_PARTY}|kernels/cuda/device/", rf"kernels/|{KERNELS_PUBLIC}"),
    "forms": (rf"grpc(pp)?/|{PROMETHEUS}|{CUDA}|{BOOST}", r"forms/|histogram/(?!client\.h)"),
    "server": (CUDA, r"kernels/[a-z_]+\.h|server/|histogram/"),
    "server/base": (rf"{GRPC}|{PROMETHEUS}|{CUDA}", r"kernels/batch\.h|server/base/|histogram/usable_cores\.h"),
    "server/config": (
        rf"{GRPC}|{PROMETHEUS}|{CUDA}",
        r"kernels/(workload|backend_factory)\.h|server/(base|config)/|server/batching/limits\.h|forms/nearest\.h|histogram/number_text\.h",
    ),
    "server/batching": (
        rf"{THIRD_PARTY}|{CUDA}",
        r"kernels/(workload|batch|backend|error|mutex)\.h|server/batching/|server/base/",
    ),
    "server/request": (
        rf"grpc(pp)?/|{PROMETHEUS}|{CUDA}",
        r"kernels/[a-z_]+\.h|forms/binning\.h|server/(base|batching|request)/|histogram/",
    ),
    "server/rpc": (rf"{PROMETHEUS}|{CUDA}|{BOOST}", r"server/(base|rpc)/"),
    "server/http": (rf"{GRPC}|{PROMETHEUS}|{CUDA}", r"server/(base|http)/"),
    "server/service": (
        rf"{PROMETHEUS}|{CUDA}|{BOOST}",
        r"kernels/[a-z_]+\.h|forms/|server/(base|config|batching|request|http|rpc|service)/|histogram/",
    ),
    "server/metrics": (
        rf"{GRPC}|{CUDA}",
        r"kernels/[a-z_]+\.h|server/(base|config|batching|metrics)/",
    ),
    "client": (rf"{PROMETHEUS}|{CUDA}", r"client/|histogram/(v1/|client\.h|sample_type\.h)"),
    "client/include": (r"(?!absl/|histogram/v1/)[^/.]*[/.]", r"histogram/v1/"),
    "python": (rf"{THIRD_PARTY}|{CUDA}", rf"python/(src/|cuda/plugin\.h)|kernels/[a-z_]+\.h|{KERNELS_PUBLIC}"),
    # The one shared object of the package with CUDA in it: loaded when a GPU's array comes.
    "python/cuda": (THIRD_PARTY, rf"python/cuda/|{KERNELS_PUBLIC}"),
    # The command line counts local files in process, with what the library offers everybody.
    "client/cli": (rf"{PROMETHEUS}|{CUDA}", r"client/|forms/|histogram/"),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
CUDA_TEST = re.compile(r"^\s*#\s*(?:if|ifdef|ifndef|elif)\b.*\bHISTOGRAM_CUDA\b", re.MULTILINE)
OWN = re.compile(r"(kernels|forms|server|client|python|proto|tests|bench|histogram)/")


def comment_free(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)


# What reaches past gRPC's public C++ interface; see server/rpc/grpc_internals.h.
GRPC_INTERNALS = re.compile(r"grpc::internal|grpc_core|grpcpp/impl/(?:codegen|rpc_|proto_utils)|c_server\(\)|src/core")


def rule_of(path):
    folder = path.parent.as_posix()
    while folder and folder not in RULES:
        folder = folder.rpartition("/")[0]
    return folder, RULES.get(folder)


def check_file(path, text, cuda_tests):
    """Yields what is wrong with one file; `path` is relative to the repository."""
    if CUDA_TEST.search(text):
        cuda_tests.append(path.as_posix())
    folder, rule = rule_of(path)
    if rule is None:
        return
    forbidden, own_allowed = rule
    for header in INCLUDE.findall(text):
        # The factory is the one place that knows whether CUDA was compiled in.
        if path.as_posix() == "kernels/backend_factory.cc" and header == "kernels/cuda/backend/cuda_backends.h":
            continue
        if re.match(forbidden, header) or (header.endswith(".pb.h") and ".pb" in forbidden):
            yield f"{path}: {folder}/ must not include {header}"
        elif own_allowed and OWN.match(header) and not re.match(own_allowed, header):
            yield f"{path}: {folder}/ may not include {header}"
    if path.parts[0] == "server" and path.stem != "grpc_internals":
        for word in GRPC_INTERNALS.findall(comment_free(text)):
            yield f"{path}: {word} belongs into server/rpc/grpc_internals.h"
    if folder.startswith("kernels/cuda") and re.search(r"\bgetenv\b", comment_free(text)):
        yield f"{path}: kernels/cuda/ must not read the environment"
    if folder == "kernels/tuning" and re.search(r"\b(steady_clock|system_clock|clock_gettime)\b",
                                                comment_free(text)):
        yield f"{path}: kernels/tuning/ must not read a clock"


def check_tree(root):
    problems, cuda_tests, files = [], [], 0
    for folder in FOLDERS + ("tests", "bench", "examples"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES or not path.is_file():
                continue
            files += 1
            text = path.read_text(encoding="utf-8")
            problems += check_file(path.relative_to(root), text, cuda_tests)
    if cuda_tests != ["kernels/backend_factory.cc"]:
        problems.append(f"HISTOGRAM_CUDA is tested in {cuda_tests}, not in kernels/backend_factory.cc alone")
    return files, problems


def self_test():
    """Each kind of rule can catch something, and lets through what it should."""
    cases = [
        ("kernels/x.cc", '#include "kernels/cuda/backend/lane/lane.h"', True),
        ("kernels/backend_factory.cc", '#include "kernels/cuda/backend/cuda_backends.h"', False),
        ("kernels/tuning/x.cc", "auto t = std::chrono::steady_clock::now();", True),
        ("kernels/include/histogram/x.h", "#include <span>", False),
        ("kernels/include/histogram/x.h", "#include <unistd.h>", True),
        ("kernels/include/histogram/x.h", '#include "kernels/workload.h"', True),
        ("kernels/cuda/base/x.cc", 'const char* v = std::getenv("X");', True),
        ("server/rpc/x.cc", "grpc_server_shutdown(server.c_server());", True),
        ("server/rpc/grpc_internals.cc", "using grpc::internal::RpcMethod;", False),
        ("server/rpc/x.cc", '#include "histogram/v1/histogram.grpc.pb.h"', True),
        ("server/request/x.cc", '#include "forms/json.h"', True),
        ("server/request/x.cc", '#include "forms/binning.h"', False),
    ]
    for path, text, caught in cases:
        if bool(list(check_file(pathlib.Path(path), text, []))) != caught:
            yield f"the rule for {path} is wrong about: {text}"


def main():
    files, problems = check_tree(pathlib.Path(sys.argv[1]))
    problems += self_test()
    if files < 20:
        problems.append(f"only {files} source files under {sys.argv[1]}: is that the repository?")
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
