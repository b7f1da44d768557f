// Limits the requests that a process handles at once, and the bytes of bodies that have arrived but are not complete. Both count for
// the client's network until the request is authenticated, and for its tenant from then on. Bodies without a verified credential have
// a budget of their own. For a tenant's request, the beginning of its body counts until the request is answered, because the runtime
// buffers a megabyte before anybody reads it. A response that is being sent no longer counts: streams have limits of their own. Units:
// bytes.
// Failures: 503; the response closes the connection. Contract: neighbours#connections.
import { ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { SharedBudget } from './shared-budget.ts';

const { strangersBytes, tenantsBytes, takenIn } = LIMITS.body;
/** At least this many bodies of the configured size fit into a budget. */
const BODIES_MIN = 8;

/** Bytes of the body that the runtime may buffer before the service reads it. */
export function takenInOf({ headers }: Request): number {
  if (headers.has('transfer-encoding')) return takenIn.undeclared;
  return Math.min(takenIn.declared, Number(headers.get('content-length') ?? 0) || 0);
}

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

  /** A place for a request from this network, whose body has `bytes` buffered; undefined when the network holds as many as are free. */
  enter(network: string, bytes = 0): RequestPlace | undefined {
    const share = `address:${network}`;
    if (!this.#places.take(share, 1)) return undefined;
    return new RequestPlace(this.#places, this.#strangers, this.#tenants, share, bytes);
  }
}

export class RequestPlace {
  #bodies: SharedBudget;
  #hasLeft = false;
  /** Those of the buffered bytes that count. */
  #counted = 0;

  constructor(
    private readonly places: SharedBudget,
    strangers: SharedBudget,
    private readonly tenants: SharedBudget,
    private share: string,
    private readonly bytes: number,
  ) {
    this.#bodies = strangers;
  }

  /** The request is authenticated for this tenant. 503 when the tenant holds as many places as are still free. */
  moveTo(tenantId: string): void {
    if (this.#hasLeft || this.share === tenantId) return;
    this.places.give(this.share, 1);
    this.#hasLeft = !this.places.take(tenantId, 1);
    if (this.#hasLeft) throw tooManyRequests();
    this.share = tenantId;
    this.#bodies = this.tenants;
    if (!this.tenants.take(tenantId, this.bytes)) throw tooManyBodies();
    this.#counted = this.bytes;
  }

  /** Counts bytes of a body as they arrive; 503 when there are too many. */
  receiving(): ArrivingBytes {
    return new ArrivingBytes(this.#bodies, this.share, this.#counted);
  }

  leave(): void {
    if (this.#hasLeft) return;
    this.#hasLeft = true;
    this.places.give(this.share, 1);
    this.tenants.give(this.share, this.#counted);
  }
}

/** The bytes of one body, without those that are counted already. */
export class ArrivingBytes {
  #bytes = 0;

  constructor(
    private readonly budget: SharedBudget,
    private readonly share: string,
    private left: number,
  ) {}

  add(bytes: number): void {
    const further = Math.max(0, bytes - this.left);
    if (!this.budget.take(this.share, further)) throw tooManyBodies();
    this.left -= bytes - further;
    this.#bytes += further;
  }

  /** All bytes have arrived, or no more are read. */
  end(): void {
    this.budget.give(this.share, this.#bytes);
    this.#bytes = 0;
  }
}

function tooManyBodies(): ServiceError {
  return busy('too many request bodies arrive at once; try later');
}

/** 503: the process handles as many requests as it may. */
export function tooManyRequests(): ServiceError {
  return busy('too many requests at once; try later');
}

function busy(message: string): ServiceError {
  return new ServiceError('SERVICE_UNAVAILABLE', message, { headers: { 'retry-after': '2', connection: 'close' } });
}
