"""The values of configuration keys that neither the file, the environment nor the command line sets."""

from __future__ import annotations

from typing import Any

#: Sections are joined with those of the file key by key; any other key of the file replaces the one here.
DEFAULTS: dict[str, Any] = {
    "server": {
        "host": "127.0.0.1",
        "port": 8088,
        "workers": 2,
        "threads": 1100,
        "maxBodyBytes": 1024 * 1024,
        "receiveSeconds": 15,
        "gracefulShutdownSeconds": 10,
    },
    "database": {
        "poolSize": 10,
        "connectTimeoutSeconds": 5,
        "statementTimeoutSeconds": 30,
        "lockTimeoutSeconds": 10,
    },
    "logging": {"level": "info", "format": "json"},
    "domains": [
        {"id": "development", "name": "development"},
        {"id": "staging", "name": "staging"},
        {"id": "production", "name": "production"},
    ],
    "projects": [
        {"id": "flyteexamples", "name": "flyteexamples", "description": "The documentation's examples."},
        {"id": "flytesnacks", "name": "flytesnacks", "description": "Small workflows to learn from."},
    ],
    "attributes": {"unknownNames": "warn"},
    "task_resources": {
        "defaults": {"cpu": "2", "memory": "200Mi"},
        "limits": {"cpu": "2", "memory": "1Gi", "gpu": "1"},
    },
    "workflow_execution_config": {"max_parallelism": 25},
    "clusters": {
        "registration": "open",
        "labelClusterMap": {"mycluster": [{"id": "local", "weight": 1}]},
        "clusterConfigs": [{"name": "local", "enabled": True}],
    },
    "placement": {"requestMayOverride": True},
    "agents": {
        "leaseSeconds": 60,
        "waitSeconds": 30,
        "unreachableSeconds": 90,
        "lostSeconds": 300,
        "giveUpAfter": "24h",
        "evictionsPerSecond": 50,
        "logLimitBytes": 1024 * 1024,
        "outputLimitBytes": 64 * 1024,
    },
    "loops": {"intervalMilliseconds": 100, "leaseSeconds": 5},
    "retention": {"interval": "1h"},
    "kinds": {
        "WORKFLOW_PRIORITY": {
            "number": 10,
            "description": "How important the executions of a scope are to each other; the larger goes first.",
            "levels": "all",
            "merge": "replace",
            "fields": {
                "priority": {
                    "type": "int",
                    "minimum": 0,
                    "maximum": 100,
                    "default": 50,
                    "description": "From 0 to 100.",
                }
            },
        }
    },
}
