"""Namespaces on the command line: what templates make of them, and what became of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.admins import RunningAdmin
from tests.support.shells import Shell

HERE = "-p flyteexamples -d development"


@pytest.fixture
def shell(admin: RunningAdmin, tmp_path: Path) -> Shell:
    return Shell(admin, tmp_path)


def test_namespaces_are_rendered_and_listed(shell: Shell) -> None:
    (shell.cwd / "cra.yaml").write_text(
        "domain: development\nproject: flyteexamples\n"
        "attributes:\n  projectQuotaCpu: '1000'\n  projectQuotaMemory: 5Ti\n"
    )
    shell.ok("rainbowctl update cluster-resource-attribute --attrFile cra.yaml --force")
    text = shell.ok(f"rainbowctl render cluster-resources {HERE}")
    documents = [document for document in yaml.safe_load_all(text) if document is not None]
    quota = next(document for document in documents if document["kind"] == "ResourceQuota")
    assert quota["spec"]["hard"] == {"limits.cpu": "1000", "limits.memory": "5Ti"}
    assert "#   projectQuotaCpu: 1000, set by CLUSTER_RESOURCE" in text
    rest = shell.rest("GET", "cluster_resources/rendering?project=flyteexamples&domain=development")
    assert json.loads(shell.ok(f"rainbowctl render cluster-resources {HERE} -o json")) == rest
    (shell.cwd / "cra.yaml").write_text(
        'domain: development\nproject: flyteexamples\nattributes: {projectQuotaCpu: "1\\u009b31m\\u2028---"}\n'
    )
    shell.ok("rainbowctl update cluster-resource-attribute --attrFile cra.yaml --force")
    text = shell.ok(f"rainbowctl render cluster-resources {HERE}")
    assert "#   projectQuotaCpu: 1\\x9b31m ---, set by" in text
    assert text.replace("\n", "").isprintable()
    shell.ok("rainbowctl create cluster k8s --clusterResources")
    assert "pending" in shell.ok(f"rainbowctl get cluster-resources {HERE}")
    told = shell.run("rainbowctl create project flytetrials --dryRun")
    assert "Namespace flytetrials-staging on k8s would be made." in told.out + told.err
    told = shell.run("rainbowctl update project flyteexamples --archive --dryRun")
    assert "Namespace flyteexamples-staging on k8s would not be rendered any more." in told.out + told.err
    refused = shell.refused(2, f"rainbowctl create project {'p' * 60} --dryRun")
    assert "Kubernetes takes 63: use a shorter project id" in " ".join(refused.split())
    assert "flyteexamples-staging" in shell.ok("rainbowctl get cluster-resources -p flyteexamples --failing")
    rest = shell.rest("GET", "cluster_resources?project=flyteexamples&domain=development")
    assert json.loads(shell.ok(f"rainbowctl get cluster-resources {HERE} -o json")) == rest
