// A receiver's code to copy: it verifies the Standard Webhooks signature of what a subscription sends.
import { CodeBlock } from './code-block.tsx';
import { Tabs } from './tabs.tsx';

const NODE = `// npm install standardwebhooks
import { createServer } from 'node:http';
import { Webhook } from 'standardwebhooks';

const webhook = new Webhook(process.env.WEBHOOK_SECRET);
const handled = new Set(); // use a table with a unique key

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    const event = webhook.verify(Buffer.concat(chunks).toString(), request.headers);
    if (!handled.has(event.id)) console.log(event.event, event.record_id);
    handled.add(event.id);
    response.writeHead(204).end();
  } catch {
    response.writeHead(401).end();
  }
}).listen(Number(process.env.PORT));
`;

const PYTHON = `# pip install standardwebhooks
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["WEBHOOK_SECRET"])
handled = set()  # use a table with a unique key


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            event = webhook.verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            self.send_response(401)
            return self.end_headers()
        if event["id"] not in handled:
            print(event["event"], event["record_id"], flush=True)
        handled.add(event["id"])
        self.send_response(204)
        self.end_headers()


ThreadingHTTPServer(("", int(os.environ["PORT"])), Receiver).serve_forever()
`;

const GO = `// go get github.com/standard-webhooks/standard-webhooks/libraries
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || webhook.Verify(body, r.Header) != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		log.Printf("%s", body) // handle each "id" once
		w.WriteHeader(http.StatusNoContent)
	})
	log.Fatal(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
`;

const LANGUAGES = [
  { key: 'node', label: 'Node', text: NODE },
  { key: 'python', label: 'Python', text: PYTHON },
  { key: 'go', label: 'Go', text: GO },
];

export function ReceiverCode() {
  return (
    <Tabs
      label="Language"
      name="code"
      tabs={LANGUAGES.map(({ key, label, text }) => ({
        key,
        label,
        content: () => <CodeBlock label={`A receiver in ${label}`} text={text} />,
      }))}
    />
  );
}
