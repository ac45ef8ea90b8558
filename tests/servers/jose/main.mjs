#!/usr/bin/env node
// jose is a relying party for the tests, built on createRemoteJWKSet of the npm package jose.
//
// It knows an issuer URL, an audience and a CA, and says of each token on its standard input whether it accepts it. The
// line `advance SECONDS` moves the clock that jose's cache and cooldown go by.
import { readFileSync } from "node:fs";
import { get } from "node:https";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import { createRemoteJWKSet, customFetch, jwtVerify } from "jose";

let advanced = 0;
const now = Date.now;
Date.now = () => now() + advanced;

const text = { type: "string" };
const { values } = parseArgs({ options: { issuer: text, audience: text, ca: text } });
const { issuer, audience } = values;
const ca = readFileSync(values.ca);

// The built-in fetch takes no CA.
const read = (url) =>
  new Promise((resolve, reject) => {
    const request = get(url, { ca, timeout: 10_000 }, (answer) => {
      const chunks = [];
      answer.on("data", (chunk) => chunks.push(chunk));
      answer.on("error", reject);
      answer.on("end", () => resolve(new Response(Buffer.concat(chunks), { status: answer.statusCode })));
    });
    request.on("error", reject);
    request.on("timeout", () => request.destroy(new Error(`no answer from ${url} in 10 s`)));
  });

const say = (answer) => console.log(JSON.stringify(answer));

const discovery = await (await read(`${issuer}/.well-known/openid-configuration`)).json();
if (discovery.issuer !== issuer) {
  throw new Error(`discovery names the issuer ${discovery.issuer}`);
}
const keys = createRemoteJWKSet(new URL(discovery.jwks_uri), { [customFetch]: (url) => read(url) });
say({ ready: true });

for await (const line of createInterface({ input: process.stdin })) {
  const [word, seconds] = line.split(" ");
  if (word === "advance") {
    advanced += Number(seconds) * 1000;
    say({ accepted: true });
    continue;
  }
  try {
    const { payload } = await jwtVerify(word, keys, { issuer, audience });
    say({ accepted: true, subject: payload.sub });
  } catch (error) {
    say({ accepted: false, error: `${error.code}: ${error.message}` });
  }
}
