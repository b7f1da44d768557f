// Environment variables that look like the service's own, but that it does not read. Without a warning, a misspelt variable would have no
// effect and nobody would notice. The start only warns, because other programs use the environment too.
// Contract: decisions#configuration.
import { type Environment, variableNames } from '../config.ts';
import { nearestName } from './nearest-name.ts';

/** What Kubernetes adds for each service of a namespace, such as `REDIS_SERVICE_HOST` and `REDIS_PORT=tcp://10.0.0.1:6379`. */
const SERVICE_LINK = { name: /_SERVICE_(?:HOST|PORT)|_PORT_\d+_(?:TCP|UDP|SCTP)/, value: /^(?:tcp|udp|sctp):\/\// };

/** One sentence for each, with the nearest name; values are not shown, since they may be secrets. */
export function unknownVariables(env: Environment): string[] {
  const known = variableNames();
  const given = Object.entries(env).filter(([name, value]) => value && !known.includes(name));
  return given.flatMap(([name, value]) => {
    if (SERVICE_LINK.name.test(name) || SERVICE_LINK.value.test(value as string)) return [];
    const family = familyOf(name, known);
    const near = nearestName(name, family.length === 0 ? known : family);
    if (near === undefined && family.length === 0) return [];
    return [`unknown environment variable ${name}; ${near === undefined ? knownOf(family) : `did you mean ${near}?`}`];
  });
}

/** The known names with the same first word; the OpenTelemetry SDK reads variables of its own. */
function familyOf(name: string, known: readonly string[]): readonly string[] {
  const [prefix] = /^[A-Z]+_/.exec(name) ?? [];
  return prefix === undefined || prefix === 'OTEL_' ? [] : known.filter((other) => other.startsWith(prefix));
}

function knownOf(family: readonly string[]): string {
  return family.length === 1 ? `there is ${family[0]}` : `there are ${family.join(', ')}`;
}
