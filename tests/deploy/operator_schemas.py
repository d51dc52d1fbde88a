"""JSON Schemas of the two objects of the Prometheus Operator that deploy/kubernetes uses.

Written after the operator's API reference (monitoring.coreos.com/v1), for the fields in use: a field
that is not listed here is an error, as with the strict Kubernetes schemas.
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
RULE = {
    "type": "object", "required": ["expr"], "additionalProperties": False,
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
    "properties": {
        "alert": {"type": "string", "minLength": 1}, "for": DURATION,
        "record": {"type": "string", "pattern": r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"},
        "expr": {"type": ["string", "integer"]}, "labels": LABELS, "annotations": LABELS}}
PROMETHEUS_RULE_SPEC = {
    "type": "object", "required": ["groups"], "additionalProperties": False,
    "properties": {"groups": {"type": "array", "items": {
        "type": "object", "required": ["name", "rules"], "additionalProperties": False,
        "properties": {"name": {"type": "string", "minLength": 1}, "interval": DURATION,
                       "limit": {"type": "integer"},
                       "rules": {"type": "array", "items": RULE}}}}}}


def _object(kind, spec):
    return {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"],
            "additionalProperties": False,
            "properties": {"apiVersion": {"const": "monitoring.coreos.com/v1"},
                           "kind": {"const": kind}, "metadata": METADATA, "spec": spec}}


SCHEMAS = {"PodMonitor": _object("PodMonitor", POD_MONITOR_SPEC),
           "PrometheusRule": _object("PrometheusRule", PROMETHEUS_RULE_SPEC)}
