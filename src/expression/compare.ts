// Two comparisons that JavaScript lacks: text by Unicode code point (Postgres's "C" collation on UTF-8;
// JavaScript compares UTF-16 units, which puts U+1F600 before U+FF5E), and decimals by exact value, of any
// length and scale. Both return a negative number, zero or a positive number.
// Contract: decisions#order, decisions#expressions.
import { withoutFinalZeros } from '../runtime/text.ts';

export function compareText(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const left = a.charCodeAt(i);
    const right = b.charCodeAt(i);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** Compares two plain decimals (`-12.50`, no exponent) by value. */
export function compareDecimal(a: string, b: string): number {
  const left = magnitude(a);
  const right = magnitude(b);
  if (left.sign !== right.sign) return left.sign - right.sign;
  const difference =
    left.whole.length - right.whole.length ||
    compareText(left.whole, right.whole) ||
    compareText(left.fraction, right.fraction);
  return left.sign * difference;
}

/** Surrogates encode code points above U+FFFF, so they rank above every other unit. */
function rank(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit;
}

function magnitude(decimal: string): { sign: number; whole: string; fraction: string } {
  const negative = decimal.startsWith('-');
  const [digits = '', decimals = ''] = decimal.slice(negative ? 1 : 0).split('.');
  const whole = digits.replace(/^0+/, '');
  const fraction = withoutFinalZeros(decimals);
  const zero = whole === '' && fraction === '';
  return { sign: zero ? 0 : negative ? -1 : 1, whole, fraction };
}
