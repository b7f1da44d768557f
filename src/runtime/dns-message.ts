// Questions to DNS servers and their answers, as bytes (RFC 1035). A question says how long the answer may be (RFC 6891):
// LIMITS.dns.answerBytes, the size of a datagram that reaches every network in one piece. An answer is untrusted: a record
// that does not fit into it is ignored.
// Contract: neighbours#fair-shares.
import { LIMITS } from '../limits.ts';

export const RECORD_TYPES = { A: 1, TXT: 16, AAAA: 28 } as const;
export type RecordType = (typeof RECORD_TYPES)[keyof typeof RECORD_TYPES];

const HEADER_BYTES = 12;
const INTERNET = 1;
const OPT = 41;
const RECURSION_DESIRED = 0x0100;
const IS_RESPONSE = 0x80;
const NO_ERROR = 0;
const NO_SUCH_NAME = 3;
const [LABEL_MAX, NAME_MAX] = [63, 253];
/** A length from here on is a pointer to the rest of the name. */
const POINTER = 0xc0;

/** The question with this id. Throws for a name that DNS cannot have. */
export function questionFor(id: number, name: string, type: RecordType): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeUInt16BE(id, 0);
  header.writeUInt16BE(RECURSION_DESIRED, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(1, 10);
  // The OPT record has the root as its name, and the size of the answer in the place of a class.
  const size = Buffer.from([0, 0, OPT, 0, 0, 0, 0, 0, 0, 0, 0]);
  size.writeUInt16BE(LIMITS.dns.answerBytes, 3);
  return Buffer.concat([header, encoded(name), Buffer.from([0, type, 0, INTERNET]), size]);
}

function encoded(name: string): Buffer {
  const labels = name.replace(/\.$/, '').split('.');
  const isName = name.length <= NAME_MAX + 1 && labels.every((label) => label !== '' && label.length <= LABEL_MAX);
  if (!isName) throw new Error(`not a name of DNS: ${name}`);
  const parts = labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')]));
  return Buffer.concat([...parts, Buffer.from([0])]);
}

export function idOf(answer: Buffer): number {
  return answer.length < HEADER_BYTES ? -1 : answer.readUInt16BE(0);
}

/** Whether the answer repeats the question. */
export function isAnswerTo(question: Buffer, answer: Buffer): boolean {
  const end = afterName(question, HEADER_BYTES) + 4;
  const asked = (message: Buffer): string => message.toString('latin1', HEADER_BYTES, end).toLowerCase();
  return ((answer[2] ?? 0) & IS_RESPONSE) !== 0 && answer.readUInt16BE(4) === 1 && asked(question) === asked(answer);
}

/** The data of the answer's records of this type. `isFinal`: the server knows about the name, so no other needs to be asked. */
export function answersTo(answer: Buffer, type: RecordType): { records: Buffer[]; isFinal: boolean } {
  const code = (answer[3] ?? 0) & 0x0f;
  const records: Buffer[] = [];
  let at = afterName(answer, HEADER_BYTES) + 4;
  for (let left = answer.readUInt16BE(6); left > 0; left--) {
    const head = afterName(answer, at);
    const data = head + 10;
    if (data > answer.length) break;
    at = data + answer.readUInt16BE(head + 8);
    if (at > answer.length) break;
    if (answer.readUInt16BE(head) === type) records.push(answer.subarray(data, at));
  }
  return { records, isFinal: code === NO_ERROR || code === NO_SUCH_NAME };
}

/** Where a name ends that begins here. */
function afterName(message: Buffer, start: number): number {
  let at = start;
  while (at < message.length) {
    const length = message[at] as number;
    if (length >= POINTER) return at + 2;
    at += length + 1;
    if (length === 0) break;
  }
  return at;
}

export function ipv4Of(data: Buffer): string | undefined {
  return data.length === 4 ? data.join('.') : undefined;
}

export function ipv6Of(data: Buffer): string | undefined {
  if (data.length !== 16) return undefined;
  return Array.from({ length: 8 }, (_, i) => data.readUInt16BE(2 * i).toString(16)).join(':');
}

/** The text of a TXT record, whose strings belong together. */
export function textOf(data: Buffer): string {
  let text = '';
  for (let at = 0; at < data.length; at += 1 + (data[at] as number)) {
    text += data.toString('latin1', at + 1, at + 1 + (data[at] as number));
  }
  return text;
}
