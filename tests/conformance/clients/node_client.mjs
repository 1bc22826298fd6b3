// Node's official client: objects, patches, errors, watches, and an informer.
// Run by test_clients with the folder of its modules and a namespace.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, namespace] = process.argv.slice(2);
// By import, which older versions of Node need for it; by path, because it is in no folder of ours.
const entry = createRequire(`${folder}/`).resolve("@kubernetes/client-node");
const k8s = await import(pathToFileURL(entry).href);
const config = new k8s.KubeConfig();
config.loadFromDefault();
const core = config.makeApiClient(k8s.CoreV1Api);
const apps = config.makeApiClient(k8s.AppsV1Api);

const body = (name, data) => ({ metadata: { name, labels: { by: "node" } }, data });
const made = await core.createNamespacedConfigMap({ namespace, body: body("one", { k: "v" }) });
assert.ok(made.metadata.uid);
await assert.rejects(
  core.createNamespacedConfigMap({ namespace, body: body("one", {}) }),
  (error) => error.code === 409,
);
made.data = { k: "w" };
const replaced = await core.replaceNamespacedConfigMap({ name: "one", namespace, body: made });
assert.deepEqual(replaced.data, { k: "w" });
const patched = await core.patchNamespacedConfigMap({
  name: "one",
  namespace,
  body: [{ op: "add", path: "/data/x", value: "1" }],
});
assert.deepEqual(patched.data, { k: "w", x: "1" });

const labels = { app: "web" };
const deployment = await apps.createNamespacedDeployment({
  namespace,
  body: {
    metadata: { name: "web" },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "web", image: "web", ports: [{ containerPort: 80 }] }] },
      },
    },
  },
});
assert.equal(deployment.spec.replicas, 1);
assert.ok(deployment.metadata.creationTimestamp instanceof Date);

const path = `/api/v1/namespaces/${namespace}/configmaps`;
const informer = k8s.makeInformer(config, path, () => core.listNamespacedConfigMap({ namespace }));
const seen = new Promise((resolve) => {
  informer.on("add", (obj) => obj.metadata.name === "two" && resolve(obj));
});
await informer.start();
await core.createNamespacedConfigMap({ namespace, body: body("two", { k: "2" }) });
assert.equal((await seen).data.k, "2");
await informer.stop();

const objects = k8s.KubernetesObjectApi.makeApiClient(config);
const spec = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "applied", namespace },
  data: { a: "1" },
};
const applied = await objects.patch(
  spec, undefined, undefined, "node", true, k8s.PatchStrategy.ServerSideApply,
);
assert.equal(applied.metadata.managedFields[0].operation, "Apply");

await core.deleteCollectionNamespacedConfigMap({ namespace, labelSelector: "by=node" });
const left = await core.listNamespacedConfigMap({ namespace, labelSelector: "by=node" });
assert.deepEqual(left.items, []);
await assert.rejects(
  core.readNamespacedConfigMap({ name: "one", namespace }),
  (error) => error.code === 404,
);
process.exit(0);
