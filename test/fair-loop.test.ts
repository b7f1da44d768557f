import { describe, expect, test } from 'bun:test';
import { giveWay, inTurn } from '../src/runtime/event-loop.ts';
import { countFor } from '../src/runtime/work.ts';
import { asTenant } from './support/work.ts';

const PIECE_MS = 12;

/** Runs something as the work of a tenant whose client waits. */
function busy(): void {
  const end = performance.now() + PIECE_MS;
  while (performance.now() < end);
}

const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

describe('the event loop', () => {
  test('a tenant that pauses after its pieces delays no other: others that come meanwhile continue before the next piece', async () => {
    const pieces: number[] = [];
    let isOver = false;
    const heavy = asTenant('heavy', async () => {
      for (let piece = 0; !isOver; piece++) {
        const turn = giveWay();
        if (turn !== undefined) await turn;
        pieces.push(piece);
        busy();
      }
    });
    const between: number[] = [];
    await asTenant('light', async () => {
      for (let round = 0; round < 20; round++) {
        countFor('light', false);
        // Right after a piece of its work, so that the other one pauses.
        const before = pieces.length;
        while (pieces.length === before) await nextTurn();
        await nextTurn();
        const asked = pieces.length;
        await giveWay();
        between.push(pieces.length - asked);
      }
    });
    isOver = true;
    await heavy;
    // Unless the machine stalls for as long as the rest takes.
    expect(between.filter((pieces) => pieces > 0).length).toBeLessThan(10);
  });

  test('nobody pauses for the time that another has used', async () => {
    const order: string[] = [];
    await asTenant('heavy', async () => {
      await giveWay();
      busy();
    });
    const light = asTenant('light', async () => {
      countFor('light', false);
      await giveWay();
      order.push('light');
    });
    const turns = asTenant('other', async () => {
      for (let turn = 0; turn < 10; turn++) await nextTurn();
      order.push('ten turns');
    });
    await Promise.all([light, turns]);
    expect(order).toEqual(['light', 'ten turns']);
  });

  test('the steps of one share run in order, and others run between two long ones', async () => {
    const order: string[] = [];
    const ended = Promise.withResolvers<void>();
    for (const step of ['first', 'second', 'third']) {
      inTurn('steps', () => {
        order.push(step);
        busy();
        if (step === 'second') inTurn('steps', () => order.push('fourth') && ended.resolve());
      });
      // Due in the next turn, as a request that has arrived.
      setImmediate(() => order.push('other'));
    }
    await ended.promise;
    expect(order.filter((step) => step !== 'other')).toEqual(['first', 'second', 'third', 'fourth']);
    expect(order.slice(0, 4)).toEqual(['first', 'other', 'other', 'other']);
  });
});
