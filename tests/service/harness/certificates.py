"""Certificates for tests, made by openssl."""

import subprocess


def openssl(*arguments, cwd):
    subprocess.run(["openssl", *arguments], cwd=cwd, check=True, capture_output=True)


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
            "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", cwd=folder)


def self_signed(folder, name="tls", days="30"):
    """(certificate, key) of this machine: NAME.crt and NAME.key in the folder."""
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", days,
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", f"{name}.key",
            "-out", f"{name}.crt", cwd=folder)
    return folder / f"{name}.crt", folder / f"{name}.key"


def certificate(folder, name, ca, host="localhost", days="30"):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{name}.key",
            "-out", f"{name}.csr", "-subj", f"/CN={name}", cwd=folder)
    (folder / "ext").write_text(f"subjectAltName=DNS:{host}\n")
    openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
            "-out", f"{name}.pem", "-days", days, "-extfile", "ext", cwd=folder)


CA = """[ca]
default_ca = test
[test]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = names
[names]
commonName = supplied
"""


def future_certificate(folder, name, ca):
    """A certificate that is not valid before 2100."""
    certificate(folder, name, ca)
    (folder / "ca.conf").write_text(CA)
    (folder / "index").write_text("")
    openssl("ca", "-batch", "-notext", "-config", "ca.conf", "-cert", f"{ca}.pem", "-keyfile", f"{ca}.key",
            "-in", f"{name}.csr", "-out", f"{name}.pem", "-startdate", "21000101000000Z", "-enddate", "21010101000000Z",
            "-extfile", "ext", cwd=folder)
