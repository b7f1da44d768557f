// The requests that a process handles at once, and the bytes of their bodies that have arrived but are not complete. Both
// count for the client's network until the request is authenticated, and for its tenant from then on; bodies without a
// verified credential have a budget of their own. A response that is being sent no longer counts: streams have limits of
// their own. Units: bytes.
// Failures: 503; the response closes the connection. Contract: neighbours#connections.
import { ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { SharedBudget } from './shared-budget.ts';

const { strangersBytes, tenantsBytes } = LIMITS.body;
/** At least so many bodies of the configured size fit. */
const BODIES_MIN = 8;

export class RequestPlaces {
  readonly #places: SharedBudget;
  readonly #strangers: SharedBudget;
  readonly #tenants: SharedBudget;

  constructor({ maxConnections, maxBodyBytes }: { maxConnections: number; maxBodyBytes: number }) {
    this.#places = new SharedBudget(maxConnections);
    this.#strangers = new SharedBudget(Math.max(strangersBytes, BODIES_MIN * maxBodyBytes));
    this.#tenants = new SharedBudget(Math.max(tenantsBytes, BODIES_MIN * maxBodyBytes));
  }

  /** Requests that are being handled. */
  get requests(): number {
    return this.#places.taken;
  }

  /** Bytes of bodies that are arriving. */
  get bodyBytes(): number {
    return this.#strangers.taken + this.#tenants.taken;
  }

  /** A place for a request from this network; undefined when the network has as many as are still free. */
  enter(network: string): RequestPlace | undefined {
    const share = `address:${network}`;
    if (!this.#places.take(share, 1)) return undefined;
    return new RequestPlace(this.#places, this.#strangers, this.#tenants, share);
  }
}

export class RequestPlace {
  #bodies: SharedBudget;
  #hasLeft = false;

  constructor(
    private readonly places: SharedBudget,
    strangers: SharedBudget,
    private readonly tenants: SharedBudget,
    private share: string,
  ) {
    this.#bodies = strangers;
  }

  /** The request has proved to be of this tenant. 503 when the tenant has as many as are still free. */
  moveTo(tenantId: string): void {
    if (this.#hasLeft || this.share === tenantId) return;
    this.places.give(this.share, 1);
    this.#hasLeft = !this.places.take(tenantId, 1);
    if (this.#hasLeft) throw tooManyRequests();
    this.share = tenantId;
    this.#bodies = this.tenants;
  }

  /** Counts bytes of a body as they arrive; 503 when there are too many. */
  receiving(): ArrivingBytes {
    return new ArrivingBytes(this.#bodies, this.share);
  }

  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.places.give(this.share, 1);
  }
}

/** The bytes of one body. */
export class ArrivingBytes {
  #bytes = 0;

  constructor(
    private readonly budget: SharedBudget,
    private readonly share: string,
  ) {}

  add(bytes: number): void {
    if (!this.budget.take(this.share, bytes)) throw busy('too many request bodies arrive at once; try later');
    this.#bytes += bytes;
  }

  /** All have arrived, or no further ones are read. */
  end(): void {
    this.budget.give(this.share, this.#bytes);
    this.#bytes = 0;
  }
}

/** 503: the process handles as many requests as it may. */
export function tooManyRequests(): ServiceError {
  return busy('too many requests at once; try later');
}

function busy(message: string): ServiceError {
  return new ServiceError('SERVICE_UNAVAILABLE', message, { headers: { 'retry-after': '2', connection: 'close' } });
}
