"""The values of `apiVersion` in documents that kube-batch and Volcano have, too."""

from __future__ import annotations

from typing import Literal

BatchVersion = Literal[
    "v4",
    "scheduling.volcano.sh/v1beta1",
    "scheduling.incubator.k8s.io/v1alpha1",
    "scheduling.incubator.k8s.io/v1alpha2",
]
