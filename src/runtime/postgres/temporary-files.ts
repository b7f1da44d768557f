// The space on disk that the statements of a session take to sort and group. Long texts are stored compressed and sorted as they
// are: grouping the 600 records of a tenant, of 10 MB, took 1.6 GB, and a full disk stops every tenant. Only some users may set the
// limit: without the privilege, it is that of the server.
// Contract: neighbours#byte-budgets.
import { lacksPrivilege } from './failures.ts';

type Run = (text: string, parameters: unknown[]) => Promise<unknown>;

/** Sets the limit, in megabytes, unless the server has one. */
export async function limitTemporaryFiles(run: Run, megabytes: number): Promise<void> {
  const text = `select set_config('temp_file_limit', $1::text, false) where current_setting('temp_file_limit') = '-1'`;
  try {
    await run(text, [`${megabytes}MB`]);
  } catch (error) {
    if (!lacksPrivilege(error)) throw error;
  }
}
