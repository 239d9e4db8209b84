// The scenarios, over the client of @a2a-js/sdk 0.3.
//
//     node script.mjs URL BINDING
//
// Prints one line of JSON for each scenario: its name, and an error if it failed. What each scenario shows is written
// in scenarios.py, which also has the names.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import {
  ClientFactory,
  JsonRpcTransportFactory,
  RestTransportFactory,
  TaskNotCancelableError,
  TaskNotFoundError,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

const [url, binding] = process.argv.slice(2);
const DEADLINE = 30_000;
const NO_TASK = 'a-task-that-does-not-exist';
const EXTENDED = 'obedient to those it knows';

// Clients and calls

const factory = new ClientFactory({
  transports: [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory()],
  preferredTransports: [binding],
});
const client = await factory.createFromUrl(url);

function params(script, { blocking = true, second, ...fields } = {}) {
  const parts = [{ kind: 'text', text: script }, ...(second === undefined ? [] : [second])];
  const message = { kind: 'message', messageId: randomUUID(), role: 'user', parts, ...fields };
  return { message, configuration: { blocking } };
}

const send = (script, more) => client.sendMessage(params(script, more));
const begin = (script) => send(script, { blocking: false });

async function open(gate) {
  assert.equal((await send(`open:${gate} message:opened`)).parts[0].text, 'opened');
}

async function collect(events, onFirst = () => {}) {
  const all = [];
  for await (const event of events) {
    all.push(event);
    if (all.length === 1) await onFirst(event);
  }
  return all;
}

const summary = (events) =>
  events.map((event) => (event.kind === 'artifact-update' ? event.artifact.parts[0].text : event.status.state));
const finals = (events) => events.filter((event) => event.kind === 'status-update').map((event) => event.final);
const texts = (task) => Object.fromEntries(task.artifacts.map((each) => [each.artifactId, each.parts[0].text]));

/** The code of the error that is told; REST and JSON-RPC have the one, gRPC has a class. */
async function refused(call, kind, code) {
  const error = await call.then(
    (answer) => assert.fail(`answered with ${JSON.stringify(answer)}`),
    (reason) => reason,
  );
  const { errorResponse } = error.cause ?? error;
  assert(error instanceof kind || errorResponse?.error.code === code, String(error));
}

// Scenarios

const scenarios = {
  async card() {
    const card = await client.getAgentCard();
    assert.equal(card.name, EXTENDED);
    const resolved = await factory.agentCardResolver.resolve(url);
    assert.equal(resolved.name, 'obedient');
    assert.equal(resolved.protocolVersion, '0.3');
    assert.equal((await factory.agentCardResolver.resolve(url, '/.well-known/agent.json')).url, resolved.url);
  },

  async send() {
    const task = await send('work artifact:a complete');
    assert.equal(task.kind, 'task');
    assert.equal(task.status.state, 'completed');
    assert.deepEqual(texts(task), { a: 'text of a' });
    assert.deepEqual(
      [task.history[0].role, task.history[0].parts[0].text],
      ['user', 'work artifact:a complete'],
    );
  },

  async send_without_waiting() {
    const gate = randomUUID();
    const begun = await begin(`work hold:${gate} artifact:a complete`);
    assert(['submitted', 'working'].includes(begun.status.state));
    await open(gate);
    for (;;) {
      const task = await client.getTask({ id: begun.id });
      if (task.status.state === 'completed') return assert.deepEqual(texts(task), { a: 'text of a' });
    }
  },

  async stream() {
    const [task, ...events] = await collect(client.sendMessageStream(params('work chunks:3 complete')));
    assert.equal(task.kind, 'task');
    assert.deepEqual(summary(events), ['working', '0 ', '1 ', '2 ', 'completed']);
    assert.deepEqual(finals(events), [false, true]);
    assert.deepEqual([...new Set(events.map((event) => event.taskId))], [task.id]);
  },

  async question() {
    const [task, ...events] = await collect(client.sendMessageStream(params('work ask:which?')));
    assert.deepEqual(summary(events), ['working', 'input-required']);
    assert.deepEqual(finals(events), [false, true]);
    const answered = await send('artifact:a complete', { taskId: task.id, contextId: task.contextId });
    assert.deepEqual([answered.id, answered.status.state], [task.id, 'completed']);
  },

  async get() {
    const task = await send('work ask:which?');
    assert.equal((await client.getTask({ id: task.id })).status.message.parts[0].text, 'which?');
    await send('complete', { taskId: task.id });
    assert.equal((await client.getTask({ id: task.id, historyLength: 1 })).history.length, 1);
  },

  async cancel() {
    const task = await begin(`work hold:${randomUUID()} complete`);
    assert.equal((await client.cancelTask({ id: task.id })).status.state, 'canceled');
  },

  async resubscribe() {
    const gate = randomUUID();
    const task = await begin(`work hold:${gate} artifact:a complete`);
    const events = await collect(client.resubscribeTask({ id: task.id }), () => open(gate));
    assert.deepEqual([events[0].kind, events[0].id], ['task', task.id]);
    assert.deepEqual(summary(events).slice(-2), ['text of a', 'completed']);
    assert.equal(events.at(-1).final, true);
  },

  async push_configs() {
    const { id } = await send('ask:which?');
    const config = { id: 'c', url: 'https://example.com/1', token: 't', authentication: { schemes: ['Bearer'] } };
    const made = await client.setTaskPushNotificationConfig({ taskId: id, pushNotificationConfig: config });
    assert.deepEqual([made.taskId, made.pushNotificationConfig.url], [id, config.url]);
    const named = { id, pushNotificationConfigId: 'c' };
    const found = await client.getTaskPushNotificationConfig(named);
    assert.deepEqual([found.pushNotificationConfig.token, found.pushNotificationConfig.authentication.schemes], [
      't',
      ['Bearer'],
    ]);
    const ids = async () =>
      (await client.listTaskPushNotificationConfig({ id })).map((each) => each.pushNotificationConfig.id);
    assert.deepEqual(await ids(), ['c']);
    await client.deleteTaskPushNotificationConfig(named);
    assert.deepEqual(await ids(), []);
  },

  async direct_message() {
    const message = await send('message:hi');
    assert.deepEqual([message.kind, message.role, message.parts[0].text], ['message', 'agent', 'hi']);
    const events = await collect(client.sendMessageStream(params('message:hi')));
    assert.deepEqual(events.map((event) => event.kind), ['message']);
  },

  async parts_of_all_kinds() {
    const bytes = Buffer.from('é bytes').toString('base64');
    const file = { kind: 'file', file: { bytes, mimeType: 'text/plain', name: 'a.txt' } };
    const task = await send('complete', { second: file });
    assert.equal(task.history[0].parts[1].file.mimeType, 'text/plain');
    const data = { kind: 'data', data: { a: [1, { b: 'c' }] } };
    assert.deepEqual((await send('complete', { second: data })).history[0].parts[1].data, data.data);
  },

  async failing_agent() {
    const task = await send('work crash');
    assert.equal(task.status.state, 'failed');
    assert(!JSON.stringify(task).includes('a secret of the inside'));
  },

  async errors() {
    await refused(client.getTask({ id: NO_TASK }), TaskNotFoundError, -32001);
    await refused(client.cancelTask({ id: NO_TASK }), TaskNotFoundError, -32001);
    await refused(collect(client.resubscribeTask({ id: NO_TASK })), TaskNotFoundError, -32001);
    const { id } = await send('complete');
    await refused(client.cancelTask({ id }), TaskNotCancelableError, -32002);
  },
};

// Running them

function timeout() {
  let timer;
  const passed = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done in ${DEADLINE / 1000} s`)), DEADLINE);
  });
  return { passed, cancel: () => clearTimeout(timer) };
}

for (const [name, run] of Object.entries(scenarios)) {
  const { passed, cancel } = timeout();
  const error = await Promise.race([run(), passed]).then(
    () => null,
    (reason) => String(reason?.stack ?? reason),
  );
  cancel();
  console.log(JSON.stringify({ name, error }));
}
process.exit(0);
