"""JSON Schemas of the objects of the Prometheus Operator, of cert-manager and of KEDA that deploy/ uses.

Written after their API references (monitoring.coreos.com/v1, cert-manager.io/v1, keda.sh/v1alpha1), for the
fields in use: a field that is not listed here is an error, as with the strict Kubernetes schemas.
"""

LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA = {
    "type": "object", "required": ["name"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}, "labels": LABELS,
                   "annotations": LABELS}}
DURATION = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h|d|w|y))+$"}
LABEL_NAME = {"type": "string", "pattern": r"^[a-zA-Z_][a-zA-Z0-9_]*$"}
RELABELING = {
    "type": "object", "additionalProperties": False,
    "properties": {
        "sourceLabels": {"type": "array", "items": LABEL_NAME}, "targetLabel": LABEL_NAME,
        "separator": {"type": "string"}, "regex": {"type": "string"},
        "replacement": {"type": "string"},
        "action": {"enum": ["replace", "keep", "drop", "labelmap", "labeldrop", "labelkeep"]}}}
POD_MONITOR_SPEC = {
    "type": "object", "required": ["selector", "podMetricsEndpoints"],
    "additionalProperties": False,
    "properties": {
        "jobLabel": {"type": "string"},
        "podTargetLabels": {"type": "array", "items": {"type": "string"}},
        "sampleLimit": {"type": "integer", "minimum": 0},
        "selector": {"type": "object", "additionalProperties": False,
                     "properties": {"matchLabels": LABELS}},
        "podMetricsEndpoints": {"type": "array", "minItems": 1, "items": {
            "type": "object", "additionalProperties": False,
            "properties": {
                "port": {"type": "string"}, "path": {"type": "string"},
                "scheme": {"enum": ["http", "https"]}, "interval": DURATION,
                "scrapeTimeout": DURATION, "honorLabels": {"type": "boolean"},
                "relabelings": {"type": "array", "items": RELABELING},
                "metricRelabelings": {"type": "array", "items": RELABELING}}}}}}
# Its groups are those of deploy/prometheus, which promtool checks.
PROMETHEUS_RULE_SPEC = {"type": "object", "required": ["groups"], "additionalProperties": False,
                        "properties": {"groups": {"type": "array"}}}

NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}
ISSUER_SPEC = {
    "type": "object", "additionalProperties": False, "minProperties": 1, "maxProperties": 1,
    "properties": {
        "selfSigned": {"type": "object", "additionalProperties": False},
        "ca": {"type": "object", "required": ["secretName"], "additionalProperties": False,
               "properties": {"secretName": NAME}}}}
CERTIFICATE_SPEC = {
    "type": "object", "required": ["issuerRef", "secretName"], "additionalProperties": False,
    "anyOf": [{"required": ["commonName"]}, {"required": ["dnsNames"]}],
    "properties": {
        "isCA": {"type": "boolean"}, "commonName": {"type": "string", "maxLength": 64},
        "secretName": NAME, "dnsNames": {"type": "array", "minItems": 1, "items": NAME},
        "duration": {"type": "string", "pattern": r"^[0-9]+h$"},
        "renewBefore": {"type": "string", "pattern": r"^[0-9]+h$"},
        "usages": {"type": "array", "items": {"enum": [
            "digital signature", "key encipherment", "server auth", "client auth", "cert sign"]}},
        "privateKey": {"type": "object", "additionalProperties": False, "properties": {
            "algorithm": {"enum": ["RSA", "ECDSA", "Ed25519"]}, "size": {"type": "integer"},
            "rotationPolicy": {"enum": ["Never", "Always"]}}},
        "issuerRef": {"type": "object", "required": ["name"], "additionalProperties": False,
                      "properties": {"name": NAME, "kind": {"enum": ["Issuer", "ClusterIssuer"]},
                                     "group": {"type": "string"}}}}}

SCALED_OBJECT_SPEC = {
    "type": "object", "required": ["scaleTargetRef", "triggers"], "additionalProperties": False,
    "properties": {
        "scaleTargetRef": {"type": "object", "required": ["name"], "additionalProperties": False,
                           "properties": {"name": NAME}},
        "minReplicaCount": {"type": "integer"}, "maxReplicaCount": {"type": "integer"},
        "advanced": {"type": "object", "additionalProperties": False, "properties": {
            "horizontalPodAutoscalerConfig": {"type": "object", "additionalProperties": False,
                                              "properties": {"behavior": {"type": "object"}}}}},
        "triggers": {"type": "array", "minItems": 1, "items": {
            "type": "object", "required": ["type", "metadata"], "additionalProperties": False,
            "properties": {"type": {"const": "prometheus"}, "metricType": {"enum": ["AverageValue", "Value"]},
                           "metadata": {"type": "object", "required": ["serverAddress", "threshold", "query"],
                                        "additionalProperties": False,
                                        "properties": {"serverAddress": {"type": "string"},
                                                       "threshold": {"type": "string"},
                                                       "query": {"type": "string"}}}}}}}}

MONITORING, CERT_MANAGER, KEDA = "monitoring.coreos.com/v1", "cert-manager.io/v1", "keda.sh/v1alpha1"


def _object(version, kind, spec):
    return {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"],
            "additionalProperties": False,
            "properties": {"apiVersion": {"const": version},
                           "kind": {"const": kind}, "metadata": METADATA, "spec": spec}}


SCHEMAS = {kind: _object(version, kind, spec) for version, kind, spec in (
    (MONITORING, "PodMonitor", POD_MONITOR_SPEC), (MONITORING, "PrometheusRule", PROMETHEUS_RULE_SPEC),
    (CERT_MANAGER, "Issuer", ISSUER_SPEC), (CERT_MANAGER, "Certificate", CERTIFICATE_SPEC),
    (KEDA, "ScaledObject", SCALED_OBJECT_SPEC))}
