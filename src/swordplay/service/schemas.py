"""What clients may send, and what they get: the JSON of the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from swordplay.service.models import LARGEST, Spec

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
PLAIN = r"^[^\x00-\x1f]*$"  # no control characters
Name = Annotated[
    str, Field(pattern=NAME, description="Letters, digits, dots, dashes, underscores.")
]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, strict=True)]
# Whole numbers that no reader of JSON rounds: from 2^53 on, neighbours become the same float.
WHOLE = 2**53 - 1
Label = (
    Annotated[StrictInt, Field(ge=-WHOLE, le=WHOLE)]
    | Annotated[StrictStr, Field(min_length=1, max_length=200, pattern=PLAIN)]
)
Row = list[Number | None] | dict[str, Number | None]
# One spelling a row: with leading zeros the same row would have several ids.
ID = r"^[0-9a-f]{24}-(0|[1-9][0-9]{0,5})$"
Id = Annotated[str, Field(pattern=ID, strict=True, description="From a prediction.")]
Ids = Annotated[list[Id], Field(min_length=1)]
Labels = Annotated[list[Number] | list[Label], Field(min_length=1)]
RESERVED = ("id", "label")  # columns of Arrow streams


class Strict(BaseModel):
    """No field that is not known, no infinities."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class NewModel(Strict):
    """A model to create."""

    name: Name
    task: Literal["regression", "classification"] = "regression"
    loss: Literal["squared", "huber", "absolute", "pinball"] = "squared"
    delta: Annotated[float, Field(gt=0, le=LARGEST, strict=True)] = 1.0
    quantile: Annotated[float, Field(ge=0.001, le=0.999, strict=True)] = 0.5
    pool: Literal["auto", "first-order", "sword++", "ader++", "oegd", "ogd"] = "auto"
    last_value: Annotated[bool, Field(strict=True)] = True
    missing: Literal["error", "zero"] = "error"
    coverage: Annotated[float, Field(ge=0.01, le=0.999, strict=True)] | None = 0.9
    features: (
        Annotated[
            list[Annotated[str, Field(min_length=1, max_length=200, pattern=PLAIN)]],
            Field(min_length=1, max_length=2000),
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.features is not None and len(set(self.features)) < len(self.features):
            raise ValueError("features must differ from each other")
        if self.features is not None and not set(RESERVED).isdisjoint(self.features):
            raise ValueError('a feature cannot be called "id" or "label": Arrow columns are')
        rough = self.task == "regression" and self.loss in ("absolute", "pinball")
        if rough and self.pool in ("sword++", "oegd"):
            raise ValueError(f'pool "{self.pool}" needs a smooth loss')
        return self

    def spec(self) -> Spec:
        """Return what the model is to be."""
        return Spec.from_json(self.model_dump(exclude={"name"}))


class PredictIn(Strict):
    """Rows to predict: lists of numbers, or objects by feature name."""

    rows: Annotated[list[Row], Field(min_length=1)]
    remember: Annotated[bool, Field(strict=True)] = Field(
        True, description="Keep the rows, so that their labels can be learned by id."
    )


class LearnIn(Strict):
    """Labels to learn: of ``ids`` from predictions, or of ``rows`` given with them."""

    rows: Annotated[list[Row], Field(min_length=1)] | None = None
    ids: Ids | None = None
    labels: Labels

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.rows is None) == (self.ids is None):
            raise ValueError("give either rows or ids")
        given = self.rows if self.ids is None else self.ids
        assert given is not None
        if len(given) != len(self.labels):
            raise ValueError(f"there are {len(given)} rows but {len(self.labels)} labels")
        return self


class LearnColumns(Strict):
    """The columns of an Arrow stream that are no features, of the same types as in JSON."""

    id: Ids | None = None
    label: Labels


class Predictions(BaseModel):
    """Predictions, a list entry a row; null where the model has learned nothing yet."""

    predictions: list[float | int | str | None]
    intervals: list[Annotated[list[float], Field(min_length=2, max_length=2)]] | None = None
    probabilities: list[list[float]] | None = None
    classes: list[int | str] | None = None
    ids: list[str] | None = None


class Learned(BaseModel):
    """What a request to learn did."""

    learned: int
    rows: int = Field(description="Rows the model has learned in all, these included.")
    seq: int = Field(description="The place of this request in the model's log.")


class ModelBrief(BaseModel):
    """One line of the list of models."""

    name: str
    task: str
    rows: int
    created: str
    ratio: float | None = Field(
        description="Recent loss of the better baseline over the model's, at most a thousand "
        "million; null before the first row, and after a start until somebody asks for the model."
    )
    drift: float | None = Field(
        description="By how many octaves its memory is shorter than usual; null like ratio."
    )


class ModelList(BaseModel):
    """The models, by name."""

    models: list[ModelBrief]


class ModelInfo(BaseModel):
    """Everything about one model."""

    name: str
    created: str
    spec: dict[str, Any]
    columns: int | None
    classes: list[int | str] | None
    seq: int
    metrics: dict[str, Any]
    ratio: float | None = Field(description="Recent loss of the better baseline over the model's.")
    weights: dict[str, float]
    effective_memory: float | None
    drift: float | None
    regret: dict[str, Any] | None
    regret_reason: str | None = Field(description="Why there is no regret.")
    queue: int


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str
    field: str | None = None
