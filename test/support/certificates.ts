// Issues X.509 certificates with node:crypto alone, so that tests need no external program and the repository holds no
// private key. Implements as much of DER as a certificate on P-256 needs (RFC 5280, section 4.1).
import { createPrivateKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** PEM texts. */
export interface Identity {
  key: string;
  cert: string;
}

export interface CertificateOptions {
  /** The IPv4 address, or the name, that the certificate is for. */
  address: string;
  from?: Date;
  to?: Date;
}

const DAY_MS = 86_400_000;

/** A certificate authority; only clients that are given its certificate trust it. */
export class Authority {
  readonly #key = newKey();
  readonly cert = certificate(AUTHORITY, AUTHORITY, this.#key, this.#key, {}, [CA_ONLY]);

  issue(wanted: CertificateOptions): Identity {
    const key = newKey();
    return { key: key.pem, cert: certificate(AUTHORITY, RECEIVER, this.#key, key, wanted, [addressName(wanted)]) };
  }
}

/** A self-signed certificate. */
export function selfSigned(wanted: CertificateOptions): Identity {
  const key = newKey();
  return { key: key.pem, cert: certificate(RECEIVER, RECEIVER, key, key, wanted, [addressName(wanted)]) };
}

interface Key {
  pem: string;
  /** The public key as encoded in a certificate. */
  spki: Uint8Array;
}

function newKey(): Key {
  const { privateKey, publicKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'der' },
  });
  return { pem: privateKey, spki: publicKey };
}

function certificate(
  issuer: Uint8Array,
  subject: Uint8Array,
  signer: Key,
  { spki }: Key,
  { from = new Date(Date.now() - DAY_MS), to = new Date(Date.now() + DAY_MS) }: Partial<CertificateOptions>,
  extensions: readonly Uint8Array[],
): string {
  const version3 = der(0xa0, der(INTEGER, [2]));
  const serial = der(INTEGER, [1, ...randomBytes(8)]);
  const validity = der(SEQUENCE, time(from), time(to));
  const stated = der(0xa3, der(SEQUENCE, ...extensions));
  const body = der(SEQUENCE, version3, serial, ECDSA_SHA256, issuer, validity, subject, spki, stated);
  const signature = sign('sha256', body, createPrivateKey(signer.pem));
  const whole = der(SEQUENCE, body, ECDSA_SHA256, der(BIT_STRING, [0], signature));
  const lines = Buffer.from(whole)
    .toString('base64')
    .replace(/.{1,64}/g, '$&\n');
  return `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`;
}

/** A value with its tag and length. */
function der(tag: number, ...parts: (Uint8Array | readonly number[])[]): Uint8Array {
  const content = Buffer.concat(parts.map((part) => Uint8Array.from(part)));
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Uint8Array.from([tag, ...size]), content]);
}

/** UTCTime: a two-digit year, whole seconds. */
function time(date: Date): Uint8Array {
  const digits = date.toISOString().replace(/[-:T]|\.\d+/g, '');
  return der(0x17, Buffer.from(digits.slice(2)));
}

function nameOf(text: string): Uint8Array {
  const commonName = der(OBJECT_ID, [0x55, 4, 3]);
  return der(SEQUENCE, der(0x31, der(SEQUENCE, commonName, der(0x0c, Buffer.from(text)))));
}

function addressName({ address }: CertificateOptions): Uint8Array {
  const isName = /[a-z]/.test(address);
  const names = der(SEQUENCE, isName ? der(0x82, Buffer.from(address)) : der(0x87, address.split('.').map(Number)));
  return der(SEQUENCE, der(OBJECT_ID, [0x55, 29, 17]), der(OCTET_STRING, names));
}

const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_ID = 0x06;
const SEQUENCE = 0x30;
const TRUE = der(0x01, [0xff]);
const ECDSA_SHA256 = der(SEQUENCE, der(OBJECT_ID, [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]));
/** Basic constraints, critical: the subject is a CA. */
const CA_ONLY = der(SEQUENCE, der(OBJECT_ID, [0x55, 29, 19]), TRUE, der(OCTET_STRING, der(SEQUENCE, TRUE)));
const AUTHORITY = nameOf('authority of the tests');
const RECEIVER = nameOf('receiver of the tests');
