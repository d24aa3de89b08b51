"""What the sections of the configuration are made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, strict=True)]
Natural = Annotated[int, Field(ge=0, strict=True)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Share = Annotated[float, Field(ge=0, le=1, strict=True)]


class Section(BaseModel):
    """Frozen; an unknown key is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
