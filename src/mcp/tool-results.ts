// The results of tools in the response of a request. The SDK serializes a response in one go, which takes 65 ms for 16 MiB. It
// therefore gets a mark in place of a large result, and the JSON of the result then replaces the mark. A result is in the
// response twice: as structured content, and as text for clients that do not support that, unless the tool has its own text.
// Contract: decisions#mcp, neighbours#fair-shares.
import type { CallToolResult } from '@modelcontextprotocol/server';
import { expandedAsRead } from '../http/body-as-read.ts';
import { type JsonTwice, jsonTwice } from '../http/bounded-response.ts';
import { withBody } from '../http/reply.ts';
import { newId } from '../runtime/ids.ts';
import { currentWork } from '../runtime/work.ts';

/** A result with more bytes of JSON than this bypasses the SDK. */
const LARGE = 65_536;

/** A mark as the text, without its quotes, and as the structured content. */
const MARK = /(?<="text":")([0-9a-f-]{36})(?=")|\{"([0-9a-f-]{36})":true\}/g;

/** A tool's result for the SDK. 400 when it is too large for a response. */
export type ToCallResult = (result: object, text?: string) => Promise<CallToolResult>;

/** The whole result at once, for a process that serves one client. */
export const wholeResult: ToCallResult = async (result, text) => {
  const { json } = await jsonTwice(result);
  return resultOf(text ?? Buffer.concat(json).toString(), result);
};

/** The results of one request. */
export class ToolResults {
  readonly #large = new Map<string, JsonTwice>();

  readonly toCallResult: ToCallResult = async (result, text) => {
    const twice = await jsonTwice(result);
    if (lengthOf(twice.json) < LARGE) return resultOf(text ?? Buffer.concat(twice.json).toString(), result);
    const mark = newId();
    this.#large.set(mark, twice);
    return resultOf(text ?? mark, { [mark]: true });
  };

  /** The SDK's response with the results in place of their marks. Bytes that the client has not taken count as unread. */
  async fill(response: Response, onCut: () => void): Promise<Response> {
    const { body } = response;
    if (body !== null && response.headers.get('content-type')?.startsWith('text/event-stream') === true) {
      const fill = (event: Uint8Array): Uint8Array[] => this.#filled(event);
      return new Response(expandedAsRead(body, fill, currentWork().share, onCut), response);
    }
    if (this.#large.size === 0) return response;
    return withBody(response, this.#filled(new Uint8Array(await response.arrayBuffer())));
  }

  /** Replaces the marks in the SDK's text, which is short because of them. */
  #filled(bytes: Uint8Array): Uint8Array[] {
    if (this.#large.size === 0) return [bytes];
    const text = Buffer.from(bytes).toString();
    const parts: Uint8Array[] = [];
    let at = 0;
    for (const found of text.matchAll(MARK)) {
      const twice = this.#large.get(found[1] ?? found[2] ?? '');
      if (twice === undefined) continue;
      parts.push(Buffer.from(text.slice(at, found.index)), ...(found[1] === undefined ? twice.json : twice.escaped));
      at = found.index + found[0].length;
    }
    return [...parts, Buffer.from(text.slice(at))];
  }
}

function resultOf(text: string, structuredContent: object): CallToolResult {
  return { content: [{ type: 'text', text }], structuredContent: { ...structuredContent } };
}

function lengthOf(chunks: readonly Uint8Array[]): number {
  return chunks.reduce((sum, { length }) => sum + length, 0);
}
