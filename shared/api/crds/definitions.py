"""The two CustomResourceDefinitions: names, scope, columns and schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from shared.api import names
from shared.api.crds.gpunode import GPUNode
from shared.api.crds.modelplacement import ModelPlacement
from shared.api.crds.structural import structural_schema

Manifest: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`. `wide` ones appear only with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "integer", "date"]
    description: str
    wide: bool = False

    def manifest(self) -> Manifest:
        return {
            "name": self.name,
            "type": self.type,
            "jsonPath": self.path,
            "description": self.description,
            "priority": int(self.wide),
        }


AGE = Column("Age", ".metadata.creationTimestamp", "date", "Time since the object was created.")


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind of ours."""

    model: type[BaseModel]
    plural: str
    short_name: str
    scope: Literal["Cluster", "Namespaced"]
    columns: tuple[Column, ...]

    @property
    def kind(self) -> str:
        return self.model.__name__

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition object."""
        return f"{self.plural}.{names.GROUP}"

    def schema(self) -> Manifest:
        """The `openAPIV3Schema` of this kind."""
        schema = structural_schema(self.model)
        schema["properties"] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            **schema["properties"],
        }
        return schema

    def spec(self) -> Manifest:
        """The `spec` of the CustomResourceDefinition."""
        return {
            "group": names.GROUP,
            "names": {
                "kind": self.kind,
                "listKind": f"{self.kind}List",
                "plural": self.plural,
                "singular": self.kind.lower(),
                "shortNames": [self.short_name],
                "categories": ["placement"],
            },
            "scope": self.scope,
            "versions": [
                {
                    "name": names.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [column.manifest() for column in self.columns],
                    "schema": {"openAPIV3Schema": self.schema()},
                }
            ],
        }


GPU_NODES = Definition(
    model=GPUNode,
    plural="gpunodes",
    short_name="gn",
    scope="Cluster",
    columns=(
        Column("Models", ".status.models", "string", "The product names of the cards."),
        Column(
            "Reserved/Budget GB By Card",
            ".status.summary.cards",
            "string",
            "Reserved and budget of each card by slot.",
        ),
        Column("Budget", ".status.summary.budgetGB", "integer", "GB of all cards that may be reserved."),
        Column("Reserved", ".status.summary.reservedGB", "integer", "GB of all cards that are reserved."),
        Column("Free", ".status.summary.freeGB", "integer", "GB of all cards that a new model could get."),
        Column(
            "Largest-Free",
            ".status.summary.largestFreeGB",
            "integer",
            "GB of the largest share that is still free.",
        ),
        AGE,
    ),
)

MODEL_PLACEMENTS = Definition(
    model=ModelPlacement,
    plural="modelplacements",
    short_name="mp",
    scope="Namespaced",
    columns=(
        Column("Phase", ".status.phase", "string", "Idle, Pending, Placed, Running; Failed while a pod is refused."),
        Column(
            "Waiting",
            '.status.conditions[?(@.type=="Waiting")].status',
            "string",
            "True while a refused pod is placed once it fits.",
        ),
        Column("Placed", ".status.placed", "integer", "Pods that have their cards and stay."),
        Column("Wanted", ".status.wanted", "integer", "Pods that the workload wants."),
        Column("Where", ".status.where", "string", "Nodes and cards, in short."),
        Column("Ask", ".status.ask", "string", "What the pod asks for that was refused last."),
        Column(
            "Error", ".status.lastErrorCode", "string", "NoFitError, OOM (a card's memory) or OOMKilled (the node's)."
        ),
        Column("Reason", ".status.reason", "string", "The reason code of the newest refusal."),
        AGE,
        Column("Message", ".status.lastErrorMessage", "string", "The last error in full.", wide=True),
    ),
)

DEFINITIONS = (GPU_NODES, MODEL_PLACEMENTS)
