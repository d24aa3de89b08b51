"""The section `judge`: who grades, where its server is, and what it may cost."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from turnwise.config.fields import Count, Natural, NonNegative, Positive, Section, Share


class JudgeSpec(Section):
    """One judge: all that can change a verdict. How its server is reached stands in `judge.servers`."""

    kind: Literal["rule", "strict", "openai"]
    """`rule`: compares the informative words of reply and reference. `strict`: another such judge, harder to please and
    noisy. `openai`: a model behind an OpenAI-compatible server."""
    levels: Annotated[int, Field(ge=2)]
    """Levels of the rubric; a score is 0..levels-1. `openai` has rubrics of 3 and of 5."""
    model: str = ""
    """Name by which the server knows the model. `openai`, as all that follows."""
    server: str = ""
    """Name of its entry in `judge.servers`."""
    temperature: NonNegative | None = 0.0
    """Sampling temperature (no unit); null sends none, for models that refuse it."""
    seed: Natural | None = 0
    """Sampling seed; null sends none."""
    max_tokens: Count = 1024
    """Most tokens of an answer, reasoning included; an answer cut there is an abstention."""
    structured: bool = True
    """Have the server hold the answer to a JSON schema; false for a server that cannot."""
    extra: dict[str, Any] = Field(default={})
    """Further fields of the request as they are, e.g. {reasoning_effort: low}."""

    @property
    def name(self) -> str:
        """Shown with every score: the kind, or the model, and the levels."""
        return f"{self.model or self.kind}-{self.levels}"

    @model_validator(mode="after")
    def _settings_of_the_kind(self) -> "JudgeSpec":
        further = [name for name, field in type(self).model_fields.items() if getattr(self, name) != field.default]
        if self.kind != "openai" and further[2:]:
            raise ValueError(f"kind: {self.kind} takes no {further[2]}; it belongs to openai")
        if self.kind == "openai" and not (self.model and self.server):
            raise ValueError("kind: openai needs a model and the name of a server")
        if self.kind == "openai" and self.levels not in (3, 5):
            raise ValueError("levels: openai has rubrics of 3 and of 5 levels")
        return self


class Server(Section):
    """How an OpenAI-compatible server is reached. No verdict depends on it, so changing it makes nothing stale."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")]
    """Up to and with /v1; without a name, password or key in it."""
    key: Annotated[str, Field(pattern=r"^([A-Z_][A-Z0-9_]*)?$")] = ""
    """Name of the environment variable that holds the key, never the key itself; empty for a server that needs none."""
    concurrency: Count = 16
    """Calls at a time."""
    timeout: Positive = 60.0
    """Most seconds of a call."""
    batch_timeout: Positive = 3600.0
    """Most seconds of all the calls that a stage or an update has to make together."""
    retries: Natural = 4
    """Further calls after one that ran out of time, found no server, or was answered with 408, 409, 425, 429 or 5xx."""


class Price(Section):
    """What a model costs, in any one currency for each million tokens."""

    prompt: NonNegative
    """Tokens sent."""
    completion: NonNegative
    """Tokens answered."""


class Budget(Section):
    """The most that all calls ever booked in the cache of verdicts may come to; null is no limit."""

    calls: Natural | None = None
    """Calls, failed ones included."""
    tokens: Natural | None = None
    """Tokens sent and answered, as the servers say."""
    money: NonNegative | None = None
    """Money, by `prices`."""
    prices: dict[str, Price] = Field(default={})
    """Price of each model."""


class Judges(Section):
    """Training rewards and evaluation scores name their judges apart."""

    train: JudgeSpec
    """Judge of rewards."""
    eval: JudgeSpec
    """Judge of benchmarks."""
    others: dict[str, JudgeSpec] = Field(default={})
    """Further judges, for `turnwise judge compare`; no stage asks them."""
    servers: dict[str, Server] = Field(default={})
    """Servers of `openai` judges by name."""
    abstain: Literal["drop_point", "drop_trajectory", "stop"] = "drop_point"
    """What an abstention does: the reply counts for nothing, its whole trajectory (benchmark item) does, or the run stops."""
    max_abstained: Share = 0.1
    """Share of the verdicts of a stage, or of an update, from above which abstentions stop the run."""
    budget: Budget = Budget()
    """What judging may cost."""

    @property
    def named(self) -> dict[str, JudgeSpec]:
        """All judges by name: train, eval, and the others."""
        return {"train": self.train, "eval": self.eval, **self.others}

    @model_validator(mode="after")
    def _reachable_and_priced(self) -> "Judges":
        for name, spec in self.named.items():
            if spec.kind != "openai":
                continue
            if spec.server not in self.servers:
                raise ValueError(f"{name}.server: {spec.server!r} is not in judge.servers")
            if self.budget.money is not None and spec.model not in self.budget.prices:
                raise ValueError(f"budget.prices: a budget of money needs the price of {spec.model!r}")
        return self
