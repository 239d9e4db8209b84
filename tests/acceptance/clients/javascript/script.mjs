// The scenarios, over the client of @a2a-js/sdk.
//
//     node script.mjs URL BINDING
//
// Prints one line of JSON for each scenario: its name, and an error if it failed. What each scenario shows is written
// in scenarios.py, which also has the names.

import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';

import * as grpc from '@grpc/grpc-js';
import * as a2a from '@a2a-js/sdk';
import {
  ClientFactory,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import * as errors from '@a2a-js/sdk/errors';
import { fromGrpcError } from '@a2a-js/sdk/errors/grpc';

const [url, binding] = process.argv.slice(2);
const DEADLINE = 30_000;
const SEQUENCE = 'urn:a2a-scribe:extension:sequence:1';
const NO_TASK = 'a-task-that-does-not-exist';
const EXTENDED = 'obedient to those it knows';
const LARGE = 5_000_000;
const UNICODE = 'a\u0000b "quoted" \\ \r\n \u0085 \u2028 \u2029 \u202e mañana 漢字 🧑\u200d🚀 \ud83d\ude00 \u{10ffff}';
const TRANSPORTS = { JSONRPC: 'jsonrpc', 'HTTP+JSON': 'rest', GRPC: 'grpc' };

// Clients

/** What the server answered last, as far as the binding shows it. */
const seen = { headers: undefined };

async function recordingFetch(...args) {
  const response = await fetch(...args);
  seen.headers = response.headers;
  return response;
}

/** Sends calls to a method that does not exist, whatever the client asks for. */
async function lost(target, options) {
  if (String(target).endsWith('agent-card.json')) return fetch(target, options);
  if (binding === 'HTTP+JSON') return fetch(`${url}/no/such/path`, options);
  return fetch(target, { ...options, body: JSON.stringify({ ...JSON.parse(options.body), method: 'NoSuchMethod' }) });
}

/** The same for gRPC, where the client has no place to step in: its own library's call, and its reading of the error. */
async function lostCall() {
  const { supportedInterfaces } = await new ClientFactory().agentCardResolver.resolve(url);
  const target = supportedInterfaces.find((each) => each.protocolBinding === 'GRPC').url;
  const channel = new grpc.Client(target, grpc.credentials.createInsecure());
  const asIs = (bytes) => bytes;
  return new Promise((resolve, reject) => {
    const done = (error, answer) => (error ? reject(fromGrpcError(error)) : resolve(answer));
    channel.makeUnaryRequest('/lf.a2a.v1.A2AService/NoSuchMethod', asIs, asIs, Buffer.alloc(0), done);
  });
}

function connect(fetchImpl = recordingFetch) {
  const transports = [
    new JsonRpcTransportFactory({ fetchImpl }),
    new RestTransportFactory({ fetchImpl }),
    new GrpcTransportFactory(),
  ];
  return new ClientFactory({ transports, preferredTransports: [binding] }).createFromUrl(url);
}

const client = await connect();

// Calls

function request(script, { second, taskId, contextId, tenant, ...configuration } = {}) {
  const parts = [{ text: script }, ...(second === undefined ? [] : [{ text: second }])];
  const message = { messageId: randomUUID(), role: 'ROLE_USER', parts, taskId, contextId };
  return a2a.SendMessageRequest.fromJSON({ tenant, message, configuration });
}

const send = (script, options) => client.sendMessage(request(script, options));
const stream = (script, options, more) => client.sendMessageStream(request(script, options), more);
const begin = (script, options) => send(script, { ...options, returnImmediately: true });
const get = (id, more) => client.getTask(a2a.GetTaskRequest.fromJSON({ id, ...more }));
const list = (more) => client.listTasks(a2a.ListTasksRequest.fromJSON(more));
const cancel = (id) => client.cancelTask(a2a.CancelTaskRequest.fromJSON({ id }));
const subscribe = (id, more) => client.resubscribeTask(a2a.SubscribeToTaskRequest.fromJSON({ id }), more);

async function open(gate) {
  assert.equal(textOf(await send(`open:${gate} message:opened`)), 'opened');
}

async function ended(id) {
  for (;;) {
    const task = await get(id);
    if (!['SUBMITTED', 'WORKING'].includes(stateOf(task))) return task;
  }
}

async function collect(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

async function refused(call, kind, detail = () => {}) {
  const error = await call.then(
    (answer) => assert.fail(`answered with ${JSON.stringify(answer)}`),
    (reason) => reason,
  );
  if (error instanceof assert.AssertionError) throw error;
  assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error?.stack}`);
  assert.equal(error.transport, TRANSPORTS[binding]);
  detail(error);
}

// What is in answers

const stateOf = (shown) => a2a.taskStateToJSON(shown.status.state).replace('TASK_STATE_', '');
const textOf = (shown) => shown.parts.map((part) => part.content.value).join('');
const artifactsOf = (task) => Object.fromEntries(task.artifacts.map((each) => [each.artifactId, textOf(each)]));
const codeOf = (error) => error.envelopeCode ?? error.statusCode ?? error.status;
const kindOf = (event) => event.payload.$case;
const ids = (tasks) => tasks.map((task) => task.id);

function taskIn(event) {
  assert.equal(kindOf(event), 'task');
  return event.payload.value;
}

/** What a stream shows, in short: states, and texts of artifacts. */
function summary(events) {
  return events.map(({ payload: { $case: kind, value } }) => {
    if (kind === 'artifactUpdate') return textOf(value.artifact);
    return kind === 'message' ? `message ${textOf(value)}` : stateOf(value);
  });
}

function seqsOf(events) {
  return events.map((event) => event.payload.value.metadata?.[SEQUENCE]);
}

const withSequence = { serviceParameters: ServiceParameters.create(withA2AExtensions(SEQUENCE)) };

// Scenarios

const scenarios = {
  async card() {
    const card = await new ClientFactory().agentCardResolver.resolve(url);
    assert.equal(card.name, 'obedient');
    assert.ok(card.capabilities.streaming);
    assert.deepEqual(card.skills[0].tags, ['test']);
    assert.ok(card.supportedInterfaces.some((each) => each.protocolBinding === binding));
    assert.equal(client.transport.protocolName, binding);
  },

  async blocking_send() {
    const task = await send('work artifact:a complete');
    assert.equal(stateOf(task), 'COMPLETED');
    assert.deepEqual(artifactsOf(task), { a: 'text of a' });
    assert.ok(task.contextId);
    assert.equal(textOf(task.history[0]), 'work artifact:a complete');
  },

  async return_immediately_and_poll() {
    const gate = randomUUID();
    const task = await begin(`work hold:${gate} artifact:a complete`);
    assert.ok(['SUBMITTED', 'WORKING'].includes(stateOf(task)));
    assert.deepEqual(artifactsOf(await get(task.id)), {});
    await open(gate);
    const last = await ended(task.id);
    assert.equal(stateOf(last), 'COMPLETED');
    assert.deepEqual(artifactsOf(last), { a: 'text of a' });
  },

  async stream() {
    const events = await collect(stream('work chunks:5 complete'));
    const task = taskIn(events[0]);
    assert.deepEqual(summary(events.slice(1)), ['WORKING', '0 ', '1 ', '2 ', '3 ', '4 ', 'COMPLETED']);
    for (const { payload } of events.slice(1)) assert.equal(payload.value.taskId, task.id);
    assert.deepEqual(artifactsOf(await get(task.id)), { chunks: '0 1 2 3 4 ' });
  },

  async follow_up() {
    const question = await send('work ask:which?');
    assert.equal(stateOf(question), 'INPUT_REQUIRED');
    assert.equal(textOf(question.status.message), 'which?');
    const answer = await send('artifact:a complete', { taskId: question.id, contextId: question.contextId });
    assert.equal(answer.id, question.id);
    assert.equal(stateOf(answer), 'COMPLETED');
    assert.deepEqual(artifactsOf(answer), { a: 'text of a' });
  },

  async follow_up_in_a_stream() {
    const question = await send('work ask:which?');
    const events = await collect(stream('artifact:a complete', { taskId: question.id }));
    assert.equal(taskIn(events[0]).id, question.id);
    assert.deepEqual(summary(events.slice(1)), ['text of a', 'COMPLETED']);
  },

  async subscribe_to_a_running_task() {
    const gate = randomUUID();
    const task = await begin(`hold:${gate} artifact:a complete`);
    const events = [];
    for await (const event of subscribe(task.id)) {
      events.push(event);
      if (events.length === 1) await open(gate);
    }
    assert.equal(taskIn(events[0]).id, task.id);
    assert.deepEqual(summary(events), ['SUBMITTED', 'text of a', 'COMPLETED']);
  },

  async subscribe_to_a_parked_task() {
    const question = await send('ask:which?');
    const events = [];
    for await (const event of subscribe(question.id)) {
      events.push(event);
      if (events.length === 1) await send('artifact:a complete', { taskId: question.id });
    }
    assert.equal(taskIn(events[0]).id, question.id);
    assert.deepEqual(summary(events), ['INPUT_REQUIRED', 'text of a', 'COMPLETED']);
  },

  async leave_a_stream() {
    const gate = randomUUID();
    let task;
    for await (const event of stream(`work hold:${gate} artifact:a complete`)) {
      task = taskIn(event);
      break;
    }
    await open(gate);
    assert.equal(stateOf(await ended(task.id)), 'COMPLETED');
  },

  async cancel() {
    const task = await begin(`work hold:${randomUUID()} complete`);
    assert.equal(stateOf(await cancel(task.id)), 'CANCELED');
    assert.equal(stateOf(await get(task.id)), 'CANCELED');
  },

  async cancel_ends_streams() {
    const events = [];
    for await (const event of stream(`work hold:${randomUUID()} complete`)) {
      events.push(event);
      if (events.length === 1) await cancel(taskIn(event).id);
    }
    assert.deepEqual(summary(events), ['SUBMITTED', 'WORKING', 'CANCELED']);
  },

  async history_length() {
    const { id } = await send('ask:which?');
    await send('complete', { taskId: id });
    const texts = (task) => task.history.map(textOf);
    assert.deepEqual(texts(await get(id)), ['ask:which?', 'which?', 'complete']);
    assert.deepEqual(texts(await get(id, { historyLength: 1 })), ['complete']);
    assert.deepEqual(texts(await get(id, { historyLength: 0 })), []);
    assert.deepEqual(texts(await send('complete', { historyLength: 0 })), []);
  },

  async list_filters() {
    const contextId = randomUUID();
    const parked = await send('artifact:a ask:which?', { contextId });
    const done = await send('artifact:b complete', { contextId });
    const all = await list({ contextId });
    assert.deepEqual(ids(all.tasks), [done.id, parked.id]);
    assert.equal(all.totalSize, 2);
    assert.deepEqual(all.tasks.map(artifactsOf), [{}, {}]);
    const withArtifacts = await list({ contextId, includeArtifacts: true });
    assert.deepEqual(withArtifacts.tasks.map(artifactsOf), [{ b: 'text of b' }, { a: 'text of a' }]);
    assert.deepEqual(ids((await list({ contextId, status: 'TASK_STATE_INPUT_REQUIRED' })).tasks), [parked.id]);
    const later = await list({ contextId, statusTimestampAfter: done.status.timestamp });
    assert.deepEqual(ids(later.tasks), [done.id]);
    assert.deepEqual((await list({ contextId: randomUUID() })).tasks, []);
  },

  async list_pages() {
    const contextId = randomUUID();
    const sent = [];
    for (let number = 0; number < 5; number += 1) sent.unshift((await send('complete', { contextId })).id);
    const pages = [];
    let pageToken = '';
    do {
      const page = await list({ contextId, pageSize: 2, pageToken });
      assert.deepEqual([page.pageSize, page.totalSize], [2, 5]);
      pages.push(ids(page.tasks));
      pageToken = page.nextPageToken;
    } while (pageToken);
    assert.deepEqual(pages, [sent.slice(0, 2), sent.slice(2, 4), sent.slice(4)]);
  },

  async push_configs() {
    const { id: taskId } = await send('ask:which?');
    const config = (more) => a2a.TaskPushNotificationConfig.fromJSON({ taskId, ...more });
    const authentication = { scheme: 'Bearer', credentials: 'c' };
    const first = await client.createTaskPushNotificationConfig(
      config({ url: 'https://example.com/1', token: 't', authentication }),
    );
    const second = await client.createTaskPushNotificationConfig(config({ url: 'https://example.com/2' }));
    assert.ok(first.id && second.id && first.id !== second.id);
    const found = await client.getTaskPushNotificationConfig(
      a2a.GetTaskPushNotificationConfigRequest.fromJSON({ taskId, id: first.id }),
    );
    assert.deepEqual([found.url, found.token], ['https://example.com/1', 't']);
    assert.equal(found.authentication.scheme, 'Bearer');
    const listed = async () => {
      const wanted = a2a.ListTaskPushNotificationConfigsRequest.fromJSON({ taskId });
      return (await client.listTaskPushNotificationConfig(wanted)).configs.map((each) => each.id);
    };
    assert.deepEqual((await listed()).toSorted(), [first.id, second.id].toSorted());
    const gone = a2a.DeleteTaskPushNotificationConfigRequest.fromJSON({ taskId, id: first.id });
    await client.deleteTaskPushNotificationConfig(gone);
    await client.deleteTaskPushNotificationConfig(gone);
    assert.deepEqual(await listed(), [second.id]);
    await refused(
      client.getTaskPushNotificationConfig(a2a.GetTaskPushNotificationConfigRequest.fromJSON(gone)),
      errors.TaskNotFoundError,
    );
  },

  async direct_message() {
    const answer = await send('message:hello');
    assert.equal(textOf(answer), 'hello');
    assert.ok(answer.messageId && answer.contextId && !answer.taskId);
    assert.deepEqual(summary(await collect(stream('message:hello'))), ['message hello']);
  },

  async failing_agent() {
    const task = await send('work crash');
    assert.equal(stateOf(task), 'FAILED');
    assert.ok(!JSON.stringify(task).includes('secret'));
    assert.equal(stateOf(await get(task.id)), 'FAILED');
  },

  async failing_agent_in_a_stream() {
    const events = await collect(stream('work crash'));
    assert.deepEqual(summary(events).slice(1), ['WORKING', 'FAILED']);
    assert.ok(!JSON.stringify(events).includes('secret'));
  },

  async unknown_task() {
    const { TaskNotFoundError } = errors;
    await refused(get(NO_TASK), TaskNotFoundError);
    await refused(cancel(NO_TASK), TaskNotFoundError);
    await refused(collect(subscribe(NO_TASK)), TaskNotFoundError);
    await refused(send('complete', { taskId: NO_TASK }), TaskNotFoundError);
    await refused(collect(stream('complete', { taskId: NO_TASK })), TaskNotFoundError);
  },

  async finished_task() {
    const { id } = await send('complete');
    await refused(cancel(id), errors.TaskNotCancelableError);
    await refused(send('complete', { taskId: id }), errors.UnsupportedOperationError);
    await refused(collect(subscribe(id)), errors.UnsupportedOperationError);
  },

  async invalid_params() {
    // The client has no class for them on REST and gRPC.
    const kind = binding === 'JSONRPC' ? errors.RequestMalformedError : errors.A2AError;
    await refused(list({ pageSize: 1000 }), kind, (error) => {
      assert.equal(codeOf(error), { JSONRPC: -32602, 'HTTP+JSON': 400, GRPC: 3 }[binding]);
      assert.match(error.message, /pageSize/);
    });
  },

  async unknown_method() {
    const kind = binding === 'JSONRPC' ? errors.RequestMalformedError : errors.A2AError;
    const getTask = async () => (await connect(lost)).getTask(a2a.GetTaskRequest.fromJSON({ id: NO_TASK }));
    await refused(binding === 'GRPC' ? lostCall() : getTask(), kind, (error) => {
      assert.equal(codeOf(error), { JSONRPC: -32601, 'HTTP+JSON': 404, GRPC: 12 }[binding]);
    });
  },

  async extended_card() {
    const card = await (await connect()).getAgentCard();
    assert.equal(card.name, EXTENDED);
    assert.ok(card.supportedInterfaces.length);
  },

  async sequence_extension() {
    const without = await collect(stream('work chunks:2 complete'));
    assert.deepEqual(seqsOf(without).filter((seq) => seq !== undefined), []);
    const events = await collect(stream('work chunks:2 complete', {}, withSequence));
    const seqs = seqsOf(events);
    assert.equal(seqs.length, 5);
    seqs.reduce((earlier, later) => {
      assert.ok(Number.isInteger(later) && earlier < later, String(seqs));
      return later;
    }, 0);
    if (binding !== 'GRPC') assert.equal(seen.headers.get('A2A-Extensions'), SEQUENCE);
  },

  async resume() {
    const events = await collect(stream('work chunks:5 complete', {}, withSequence));
    const seqs = seqsOf(events);
    const after = (seq) => {
      const serviceParameters = { ...withSequence.serviceParameters, 'Last-Event-ID': String(seq) };
      return subscribe(taskIn(events[0]).id, { serviceParameters });
    };
    for (const place of [0, 3]) {
      const rest = await collect(after(seqs[place]));
      assert.deepEqual(rest, events.slice(place + 1));
    }
    await refused(collect(after(seqs.at(-1) + 1000)), errors.A2AError);
  },

  async large_message() {
    const second = 'é'.repeat(LARGE / 2);
    const task = await send('measure:m complete', { second, historyLength: 0 });
    const hash = createHash('sha256').update(second).digest('hex');
    assert.deepEqual(artifactsOf(task), { m: `${second.length} ${hash}` });
    // The client's gRPC takes no answer of more than 4 MB, and has no way to tell it to.
    if (binding === 'GRPC') return;
    const back = await send('echo:e complete', { second, historyLength: 0 });
    assert.ok(artifactsOf(back).e === second);
  },

  async unicode() {
    const task = await send('echo:e complete', { second: UNICODE });
    assert.deepEqual(artifactsOf(task), { e: UNICODE });
    assert.equal(task.history[0].parts[1].content.value, UNICODE);
    const events = await collect(stream('echo:e complete', { second: UNICODE }));
    assert.equal(summary(events)[1], UNICODE);
  },

  async concurrent_calls() {
    const numbers = [...Array(20).keys()];
    const texts = await Promise.all(
      numbers.map(async (number) => artifactsOf(await send('echo:e complete', { second: `${number}` })).e),
    );
    assert.deepEqual(texts, numbers.map(String));
    const streams = await Promise.all(
      numbers.map(async (number) => summary(await collect(stream('echo:e complete', { second: `${number}` })))[1]),
    );
    assert.deepEqual(streams, numbers.map(String));
  },

  async tenant() {
    const task = await send('tenant:t complete', { tenant: 'acme' });
    assert.deepEqual(artifactsOf(task), { t: 'acme' });
    assert.equal((await get(task.id, { tenant: 'acme' })).id, task.id);
    const events = await collect(stream('tenant:t complete', { tenant: 'acme' }));
    assert.equal(summary(events)[1], 'acme');
  },
};

// The run

async function outcome(scenario) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${DEADLINE} ms`)), DEADLINE);
  });
  try {
    await Promise.race([scenario(), late]);
    return null;
  } catch (error) {
    return String(error?.stack ?? error);
  } finally {
    clearTimeout(timer);
  }
}

for (const [name, scenario] of Object.entries(scenarios)) {
  console.log(JSON.stringify({ name, error: await outcome(scenario) }));
}
process.exit(0); // The client's gRPC leaves a connection open.
