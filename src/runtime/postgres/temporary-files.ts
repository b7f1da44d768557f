// The disk space that the statements of a session use to sort and group. Long texts are stored compressed but sorted uncompressed: grouping
// the 600 records of a tenant, of 10 MB, took 1.6 GB, and a full disk stops every tenant. Only some users may set the limit; without the
// privilege, the limit of the server applies.
// Contract: neighbours#byte-budgets.
import type { Log } from '../log.ts';
import { lacksPrivilege } from './failures.ts';

type Run = (text: string, parameters: unknown[]) => Promise<unknown>;

/** More than it takes to sort ten million records by a number. */
const USUAL_MB = 2_048;

const UNLIMITED =
  'the database user may not limit the temporary files of its statements, which can fill the disk of the database: ' +
  'GRANT SET ON PARAMETER temp_file_limit TO the user, or set temp_file_limit in postgresql.conf';

/** Sets the limit of a session, in megabytes, unless the server has one. The log says once if the user may not set it. */
export function temporaryLimit(log: Log, megabytes = USUAL_MB): (run: Run) => Promise<void> {
  const text = `select set_config('temp_file_limit', $1::text, false) where current_setting('temp_file_limit') = '-1'`;
  let isSaid = false;
  return async (run) => {
    try {
      await run(text, [`${megabytes}MB`]);
    } catch (error) {
      if (!lacksPrivilege(error)) throw error;
      if (!isSaid) log.warn(UNLIMITED);
      isSaid = true;
    }
  };
}
