"""A judge behind an OpenAI-compatible server; the only importer of `openai`.

Whatever goes wrong with a call is an abstention with its cause. Two things stop the run instead, since every further call
would meet them: a server that does not know the key or the model, and a budget that is used up. What a server says is
never repeated in a message: it may hold the key.
"""

import asyncio
import hashlib
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from turnwise import config
from turnwise.errors import UserError
from turnwise.judging.base import Grade, Judge, Verdict
from turnwise.judging.rubrics import messages, rubric, version
from turnwise.judging.spending import Spending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openai import AsyncOpenAI

OUT_OF_TIME = "out of time for all calls"
_HOPELESS = {
    401: "it does not accept the key",
    402: "it wants to be paid first",
    403: "it does not admit the key",
    404: "it knows no such address or model",
}
_AGAIN = frozenset({408, 409, 425, 429})
_CAUSES = {429: "rate limit", 408: "time-out"}
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds before the second call, and at most, unless the server says otherwise


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


Tokens = Annotated[int, Field(ge=0, lt=2**40)]


class _Usage(BaseModel):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class _Completion(BaseModel):
    """What is read of an answer."""

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


class _Failed(Exception):
    """A call without an answer."""

    def __init__(self, cause: str, *, again: bool, wait: float | None = None):
        """`again`: another call may do better, after `wait` seconds if the server said so."""
        super().__init__(cause)
        self.cause, self.again, self.wait = cause, again, wait


class RemoteJudge(Judge):
    """Asks a model, several items at a time, each in a conversation of its own."""

    def __init__(self, spec: config.JudgeSpec, server: config.Server, spending: Spending):
        """The judge `spec` at `server`; calls are booked in `spending`."""
        self.spec, self.server, self.spending = spec, server, spending
        self.name = spec.name
        settings = spec.model_dump(mode="json", exclude={"kind", "levels", "server"})
        digest = hashlib.sha256(json.dumps([version(), settings], sort_keys=True).encode()).hexdigest()
        self.version = f"{spec.model}@{digest[:12]}"

    async def grade(self, item: Grade) -> Verdict:
        """The verdict on one item."""
        answers: dict[Grade, Verdict] = {}
        await self.grade_all([item], answers.__setitem__)
        return answers[item]

    async def grade_all(self, items: Sequence[Grade], done: Callable[[Grade, Verdict], None]) -> None:
        """`done` hears of each distinct item as it is answered; those that the time limit of all calls cuts off abstain.

        Raises UserError for a key that is missing or not accepted, a model that is not there, or a used-up budget.
        """
        left = dict.fromkeys(items)
        todo = iter(list(left))

        async def work() -> None:
            for item in todo:
                verdict = await self._verdict(client, item)
                del left[item]
                done(item, verdict)

        async with self._client() as client:
            workers = [asyncio.ensure_future(work()) for _ in range(min(self.server.concurrency, len(left)))]
            try:
                async with asyncio.timeout(self.server.batch_timeout):
                    await asyncio.gather(*workers)
            except TimeoutError:
                pass
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        for item in left:
            done(item, Verdict(None, OUT_OF_TIME))

    def _client(self) -> "AsyncOpenAI":
        from openai import AsyncOpenAI

        return AsyncOpenAI(base_url=self.server.base_url, api_key=_key(self.server), max_retries=0)

    async def _verdict(self, client: "AsyncOpenAI", item: Grade) -> Verdict:
        """Call until there is an answer, as often as the server's `retries` allow."""
        for attempt in range(self.server.retries + 1):
            try:
                return self._read(item, await self._call(client, item))
            except _Failed as failure:
                if not failure.again or attempt == self.server.retries:
                    return Verdict(None, failure.cause)
                longest = min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT)
                await asyncio.sleep(random.uniform(longest / 2, longest) if failure.wait is None else failure.wait)
        raise AssertionError("the last attempt returns")

    async def _call(self, client: "AsyncOpenAI", item: Grade) -> _Completion:
        import openai

        self.spending.book_call(self.spec.model)
        try:
            async with asyncio.timeout(self.server.timeout):
                answer = await client.chat.completions.with_raw_response.create(**self.request(item))
            completion = _Completion.model_validate_json(answer.content)
        except (TimeoutError, openai.APITimeoutError):
            raise _Failed("time-out", again=True) from None
        except openai.APIStatusError as error:
            raise self._refused(error.status_code, error.response.headers) from None
        except openai.APIConnectionError:
            raise _Failed("no connection", again=True) from None
        except ValidationError:
            raise _Failed("unreadable response", again=True) from None
        if completion.usage:
            usage = completion.usage
            self.spending.book_tokens(self.spec.model, usage.prompt_tokens or 0, usage.completion_tokens or 0)
        return completion

    def request(self, item: Grade) -> dict[str, Any]:
        """The call that asks for a verdict on the item."""
        spec = self.spec
        sampling = {"temperature": spec.temperature, "seed": spec.seed}
        form = {"name": "verdict", "strict": True, "schema": rubric(item.kind, item.levels).schema}
        return {
            "model": spec.model,
            "messages": messages(item),
            "max_completion_tokens": spec.max_tokens,
            "extra_body": spec.extra,
            **{name: value for name, value in sampling.items() if value is not None},
            **({"response_format": {"type": "json_schema", "json_schema": form}} if spec.structured else {}),
        }

    def _refused(self, status: int, headers: "Mapping[str, str]") -> Exception:
        if status in _HOPELESS:
            return UserError(
                f"params.yaml: judge.servers.{self.spec.server}: {self.server.base_url} answers {status}, "
                f"{_HOPELESS[status]}; check base_url, the model {self.spec.model!r}, and "
                + (f"the key in {self.server.key}" if self.server.key else "whether it needs a key")
            )
        again = status in _AGAIN or status >= 500
        cause = _CAUSES.get(status, "server error" if again else "refused request")
        return _Failed(f"{cause} ({status})", again=again, wait=_retry_after(headers))

    def _read(self, item: Grade, completion: _Completion) -> Verdict:
        choice = completion.choices[0]
        if choice.finish_reason == "length":
            return Verdict(None, "truncated")
        if choice.message.refusal or choice.finish_reason == "content_filter":
            return Verdict(None, "refusal")
        return rubric(item.kind, item.levels).read(choice.message.content or "")


def _retry_after(headers: "Mapping[str, str]") -> float | None:
    """Seconds that a server asks to wait: a number, or a date."""
    said = headers.get("retry-after", "")
    if re.fullmatch(r"\d{1,6}(\.\d+)?", said):
        return float(said)
    try:
        return max(0.0, (parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None


def _key(server: config.Server) -> str:
    """The key from the environment. Raises UserError, without what stands there, where there is none that can be sent."""
    if not server.key:
        return "none"
    key = os.environ.get(server.key, "").strip()
    if not key or not key.isascii() or not key.isprintable():
        raise UserError(f"params.yaml: judge.servers: the environment holds no usable key in {server.key}; export it")
    return key
