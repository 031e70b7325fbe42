"""Structured outputs and tools of seven clients against a server, unchanged: run by tests/e2e/test_clients.py.

    .venv-clients/bin/python tests/support/clients.py http://127.0.0.1:8080/v1

prints a line of JSON for each client: {"client", "seconds", "error"}.
"""
import json
import os
import sys
import time
import traceback
from typing import Literal, Optional, Set

from pydantic import BaseModel, Field

URL = sys.argv[1]
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True" # no downloads
ASK = "Which day?"
MORE = {"max_tokens": 400, "temperature": 1, "seed": 3}


class Place(BaseModel):
    """Where it is."""
    name: str = Field(min_length=1, max_length=6, pattern="^[a-z]+$")
    height: float = Field(ge=0, le=100)


class Day(BaseModel):
    """A day."""
    number: int = Field(ge=1, le=31)
    kind: Literal["work", "rest"]
    share: float = Field(gt=0, lt=1)
    tags: Set[Literal["sun", "rain", "snow"]] = Field(max_length=3)
    place: Optional[Place] = None


def forecast(number: int, kind: str) -> str:
    """The weather of a day."""
    return f"{kind} {number}"


FORECAST = {"type": "function", "function": {
    "name": "forecast", "description": "The weather of a day.",
    "parameters": {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 31},
                                                    "kind": {"type": "string", "maxLength": 6}},
                   "required": ["number", "kind"], "additionalProperties": False}}}


def check(arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert 1 <= arguments["number"] <= 31 and isinstance(arguments["kind"], str), arguments


def openai():
    import openai
    client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0)
    messages = [{"role": "user", "content": ASK}]
    made = client.chat.completions.parse(model="any", messages=messages, response_format=Day, **MORE)
    assert isinstance(made.choices[0].message.parsed, Day)
    made = client.responses.parse(model="any", input=ASK, text_format=Day, max_output_tokens=400)
    assert isinstance(made.output_parsed, Day)
    made = client.chat.completions.parse(model="any", messages=messages, tools=[openai.pydantic_function_tool(Day)],
                                         tool_choice="required", **MORE)
    assert isinstance(made.choices[0].message.tool_calls[0].function.parsed_arguments, Day)
    with client.chat.completions.stream(model="any", messages=messages, response_format=Day, **MORE) as stream:
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Day)


def langchain():
    from langchain_openai import ChatOpenAI
    llm = ChatOpenAI(base_url=URL, api_key="none", model="any", **MORE)
    for method in ("json_schema", "function_calling"):
        assert isinstance(llm.with_structured_output(Day, method=method).invoke(ASK), Day)
    calls = llm.bind_tools([FORECAST], tool_choice="any").invoke(ASK).tool_calls
    assert calls[0]["name"] == "forecast"
    check(calls[0]["args"])


def llama_index():
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike
    llm = OpenAILike(model="any", api_base=URL, api_key="none", is_chat_model=True, is_function_calling_model=True,
                     context_window=2048, max_tokens=400, temperature=1)
    assert isinstance(llm.as_structured_llm(Day).complete(ASK).raw, Day)
    answer = llm.chat_with_tools([FunctionTool.from_defaults(forecast)], user_msg=ASK, tool_required=True)
    calls = llm.get_tool_calls_from_response(answer)
    assert calls[0].tool_name == "forecast" and isinstance(calls[0].tool_kwargs["number"], int)


def litellm():
    import litellm
    ask = {"model": "openai/any", "api_base": URL, "api_key": "none", "messages": [{"role": "user", "content": ASK}], **MORE}
    Day.model_validate_json(litellm.completion(response_format=Day, **ask).choices[0].message.content)
    call = litellm.completion(tools=[FORECAST], tool_choice="required", **ask).choices[0].message.tool_calls[0]
    check(call.function.arguments)


def pydantic_ai():
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    model = OpenAIChatModel("any", provider=OpenAIProvider(base_url=URL, api_key="none"))
    for form in (NativeOutput(Day), ToolOutput(Day), Day):
        agent = Agent(model, output_type=form, model_settings=MORE)
        assert isinstance(agent.run_sync(ASK).output, Day)


def instructor():
    import instructor
    import openai
    for mode in (instructor.Mode.TOOLS, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai.OpenAI(base_url=URL, api_key="none"), mode=mode)
        made = client.chat.completions.create(model="any", response_model=Day, max_retries=0, **MORE,
                                              messages=[{"role": "user", "content": ASK}])
        assert isinstance(made, Day)


def haystack():
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool
    from haystack.utils import Secret

    def ask(**more):
        made = OpenAIChatGenerator(api_key=Secret.from_token("none"), api_base_url=URL, model="any")
        return made.run([ChatMessage.from_user(ASK)], **more)["replies"][0]
    Day.model_validate_json(ask(generation_kwargs={**MORE, "response_format": Day}).text)
    tool = Tool(name="forecast", description="The weather of a day.", function=forecast,
                parameters=FORECAST["function"]["parameters"])
    reply = ask(tools=[tool], generation_kwargs={**MORE, "tool_choice": "required"})
    check(reply.tool_calls[0].arguments)


for run in (openai, langchain, llama_index, litellm, pydantic_ai, instructor, haystack):
    began, error = time.time(), ""
    try:
        run()
    except Exception:
        error = traceback.format_exc()[-3000:]
    print(json.dumps({"client": run.__name__, "seconds": round(time.time() - began, 1), "error": error}), flush=True)
