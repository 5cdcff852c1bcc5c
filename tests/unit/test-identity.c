/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths as they are found on hosts. The shapes come from the runtimes' own documents and from reports of users; ids are
 * made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/cleanup.h"
#include "daemon/base/utf8.h"
#include "daemon/model/identity.h"

#define ID "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
#define ID2 "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
#define UID "74ba62da-1a3d-11e7-bb11-080027cb0e22"
#define UID_ "74ba62da_1a3d_11e7_bb11_080027cb0e22"
#define UID2 "1fe19bf5-e8ef-11e8-900c-52daee5a874d"
#define UID2_ "1fe19bf5_e8ef_11e8_900c_52daee5a874d"
#define DIGEST "89f4f2cb511c3b0b7e5272cff5ec37bf"
#define TASK "bf1ddbfbbc8f45c9b1ac4f779368741e"

struct shape {
	const char *path, *unit, *slice, *runtime, *container, *pod;
};

static void check_field(const char *path, const char *field, const char *is, const char *want)
{
	if (strcmp(is, want ? want : "") != 0)
		fail_msg("%s: %s is \"%s\", not \"%s\"", path, field, is, want ? want : "");
	assert_true(utf8_valid(is, strlen(is)));
}

static void check_shapes(const struct shape *shapes, size_t n)
{
	for (const struct shape *s = shapes; s < shapes + n; s++) {
		struct identity *id = NULL;

		assert_int_equal(identity_parse(s->path, strlen(s->path), &id), 0);
		check_field(s->path, "path", id->path, s->path);
		check_field(s->path, "label", id->label, s->path);
		check_field(s->path, "unit", id->unit, s->unit);
		check_field(s->path, "slice", id->slice, s->slice);
		check_field(s->path, "runtime", id->runtime, s->runtime);
		check_field(s->path, "container", id->container_id, s->container);
		check_field(s->path, "pod", id->pod_uid, s->pod);
		identity_free(id);
	}
}

#define CHECK(...)                                                   \
	do {                                                         \
		static const struct shape shapes_[] = {__VA_ARGS__}; \
		check_shapes(shapes_, ARRAY_SIZE(shapes_));          \
	} while (0)

static void units_and_slices_of_systemd(void **state)
{
	CHECK({"/"}, {"/init.scope", "init.scope"}, {"/system.slice", "", "system.slice"},
	      {"/system.slice/sshd.service", "sshd.service", "system.slice"},
	      {"/system.slice/system-getty.slice/getty@tty1.service", "getty@tty1.service", "system-getty.slice"},
	      {"/system.slice/dbus.socket", "dbus.socket", "system.slice"},
	      {"/system.slice/home.mount", "home.mount", "system.slice"},
	      {"/system.slice/swapfile.swap", "swapfile.swap", "system.slice"},
	      {"/user.slice/user-1000.slice/session-3.scope", "session-3.scope", "user-1000.slice"},
	      {"/user.slice/user-1000.slice/user@1000.service/init.scope", "init.scope", "user-1000.slice"},
	      {"/user.slice/user-1000.slice/user@1000.service/app.slice", "user@1000.service", "app.slice"},
	      {"/user.slice/user-1000.slice/user@1000.service/app.slice/dbus.service", "dbus.service", "app.slice"},
	      {"/system.slice/postgresql.service/workers/1", "postgresql.service", "system.slice"},
	      {"/system.slice/.service", "", "system.slice"}, {"/a.slice/b c.service", "", "a.slice"},
	      {"/a.timer/b.serviceX"}, {"/.slice"},
	      {"/../../system.slice/cron.service", "cron.service", "system.slice"});
}

static void escapes_of_systemd_are_decoded(void **state)
{
	CHECK({"/user.slice/user-1000.slice/user@1000.service/app.slice/app-gnome\\x2dterminal.slice/vte-spawn-1.scope",
	       "vte-spawn-1.scope", "app-gnome-terminal.slice"},
	      {"/system.slice/system-systemd\\x2dfsck.slice/systemd-fsck@dev-disk-by\\x2duuid-1.service",
	       "systemd-fsck@dev-disk-by-uuid-1.service", "system-systemd-fsck.slice"},
	      {"/a\\x2.service", "a\\x2.service"}, {"/a\\xzz.service", "a\\xzz.service"},
	      {"/a\\x2D.service", "a-.service"}, {"/a\\x.service", "a\\x.service"}, {"/a\\.service", "a\\.service"},
	      {"/a\\\\x2d.service", "a\\-.service"},
	      /* Text in another script is decoded, what is no text or could end one is not. */
	      {"/caf\\xc3\\xa9.service", "caf\xc3\xa9.service"}, {"/a\\xc3.service", "a\\xc3.service"},
	      {"/a\\xc3\\x2d.service", "a\\xc3-.service"}, {"/a\\xff\\xc3\\xa9.service", "a\\xff\xc3\xa9.service"},
	      {"/a\\x00b.service", "a\\x00b.service"}, {"/a\\xf0\\x9f\\x90\\xa7.scope", "a\xf0\x9f\x90\xa7.scope"},
	      {"/a\\xed\\xa0\\x80.scope", "a\\xed\\xa0\\x80.scope"}, {"/a\\x0a.scope", "a\n.scope"},
	      /* systemd hides names behind '_' that the kernel could use itself. */
	      {"/_cgroup.service", "cgroup.service"}, {"/_memory.slice/__a.service", "_a.service", "memory.slice"});
}

static void docker(void **state)
{
	CHECK({"/docker/" ID, "", "", "docker", ID}, {"/docker/" ID "/init.scope", "init.scope", "", "docker", ID},
	      {"/system.slice/docker-" ID ".scope", "docker-" ID ".scope", "system.slice", "docker", ID},
	      {"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", "docker-" ID ".scope",
	       "user.slice", "docker", ID},
	      {"/docker/" ID "/docker/" ID2, "", "", "docker", ID2}, {"/system.slice:docker:" ID, "", "", "docker", ID},
	      {"/docker"}, {"/docker/buildkit"}, {"/system.slice/docker.service", "docker.service", "system.slice"});
}

static void ids_have_the_right_form_or_are_none(void **state)
{
	CHECK({"/docker/4f797c539e6c"}, {"/docker/" ID "0"},
	      {"/docker/4F797C539E6C745DE61A93CA3FF892358ECBCACCD8414D5DB545C38428142970"},
	      {"/docker/gf797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"}, {"/" ID},
	      {"/system.slice/docker-4f797c539e6c.scope", "docker-4f797c539e6c.scope", "system.slice"},
	      {"/system.slice/foo-" ID ".scope", "foo-" ID ".scope", "system.slice"},
	      {"/system.slice/docker" ID ".scope", "docker" ID ".scope", "system.slice"},
	      {"/docker-" ID ".mount", "docker-" ID ".mount"}, {"/kubepods/podnothing/" ID}, {"/podX/" ID},
	      {"/pod" UID "/" ID}, {"/kubepods/pod74ba62da-1a3d-11e7-bb11-080027cb0e2g/" ID},
	      {"/kubepods/pod74ba62da_1a3d_11e7_bb11_080027cb0e22/" ID},
	      {"/kubepods/pod" UID "/" ID "/x", "", "", "containerd", ID, UID});
}

static void kubernetes_with_the_systemd_driver(void **state)
{
	CHECK({"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID
	       ".scope",
	       "cri-containerd-" ID ".scope", "kubepods-burstable-pod" UID_ ".slice", "containerd", ID, UID},
	      {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", "crio-" ID ".scope",
	       "kubepods-pod" UID_ ".slice", "cri-o", ID, UID},
	      {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container", "crio-" ID ".scope",
	       "kubepods-pod" UID_ ".slice", "cri-o", ID, UID},
	      {"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-conmon-" ID ".scope", "crio-conmon-" ID ".scope",
	       "kubepods-pod" UID_ ".slice", "", "", UID},
	      {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/docker-" ID ".scope",
	       "docker-" ID ".scope", "kubepods-besteffort-pod" UID_ ".slice", "docker", ID, UID},
	      {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" DIGEST ".slice/cri-containerd-" ID
	       ".scope",
	       "cri-containerd-" ID ".scope", "kubepods-burstable-pod" DIGEST ".slice", "containerd", ID, DIGEST},
	      {"/kubepods.slice/kubepods-pod" UID_ ".slice", "", "kubepods-pod" UID_ ".slice", "", "", UID},
	      {"/kubepods.slice/kubepods-burstable.slice", "", "kubepods-burstable.slice"},
	      /* A service inside a container: the unit is the innermost, the container is the one that it is in. */
	      {"/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope/system.slice/foo.service",
	       "foo.service", "system.slice", "containerd", ID, UID},
	      {"/machine.slice/foo-pod" UID_ ".slice/x.service", "x.service", "foo-pod" UID_ ".slice"});
}

static void kubernetes_with_the_cgroupfs_driver(void **state)
{
	CHECK({"/kubepods/besteffort/pod" UID "/" ID, "", "", "containerd", ID, UID},
	      {"/kubepods/pod" UID "/" ID, "", "", "containerd", ID, UID},
	      {"/kubepods/burstable/pod" DIGEST "/" ID, "", "", "containerd", ID, DIGEST},
	      {"/kubepods/burstable/pod" UID "/crio-" ID, "", "", "cri-o", ID, UID},
	      {"/kubepods/burstable/pod" UID "/crio-conmon-" ID, "", "", "", "", UID},
	      {"/kubepods/besteffort/pod" UID "/" ID "/kube-proxy", "", "", "containerd", ID, UID},
	      {"/kubepods/besteffort/pod" UID, "", "", "", "", UID}, {"/kubepods/besteffort"},
	      {"/k8s.io/" ID, "", "", "containerd", ID},
	      /* The kubelet's driver is systemd, the runtime's is cgroupfs. */
	      {"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID,
	       "containerd.service", "system.slice", "containerd", ID, UID});
}

static void kubernetes_in_containers(void **state)
{
	CHECK({"/docker/" ID "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	       "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID2 ".scope",
	       "cri-containerd-" ID2 ".scope", "kubelet-kubepods-besteffort-pod" UID_ ".slice", "containerd", ID2, UID},
	      {"/system.slice/docker-" ID ".scope/kubelet/kubepods/burstable/pod" UID "/" ID2, "docker-" ID ".scope",
	       "system.slice", "containerd", ID2, UID},
	      {"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	       "cri-containerd-" ID ".scope", "kubelet-kubepods-pod" UID_ ".slice", "containerd", ID, UID},
	      {"/docker/" ID "/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID2 ".scope", "crio-" ID2 ".scope",
	       "kubepods-pod" UID_ ".slice", "cri-o", ID2, UID},
	      /* Docker in a pod, and a cluster in a pod of another. */
	      {"/kubepods/besteffort/pod" UID "/" ID "/docker/" ID2, "", "", "docker", ID2, UID},
	      {"/kubepods/besteffort/pod" UID "/" ID "/kubepods.slice/kubepods-pod" UID2_ ".slice/cri-containerd-" ID2
	       ".scope",
	       "cri-containerd-" ID2 ".scope", "kubepods-pod" UID2_ ".slice", "containerd", ID2, UID2});
}

static void podman(void **state)
{
	CHECK({"/machine.slice/libpod-" ID ".scope", "libpod-" ID ".scope", "machine.slice", "podman", ID},
	      {"/machine.slice/libpod-" ID ".scope/container", "libpod-" ID ".scope", "machine.slice", "podman", ID},
	      {"/machine.slice/libpod-conmon-" ID ".scope", "libpod-conmon-" ID ".scope", "machine.slice"},
	      {"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope/container",
	       "libpod-" ID ".scope", "user.slice", "podman", ID},
	      {"/machine.slice/machine-libpod_pod_" ID ".slice/libpod-" ID2 ".scope/container", "libpod-" ID2 ".scope",
	       "machine-libpod_pod_" ID ".slice", "podman", ID2},
	      {"/libpod_parent/libpod-" ID, "", "", "podman", ID}, {"/libpod_parent/conmon"},
	      {"/system.slice/web.service/libpod-payload-" ID, "web.service", "system.slice", "podman", ID},
	      {"/system.slice/nerdctl-" ID ".scope", "nerdctl-" ID ".scope", "system.slice", "containerd", ID});
}

static void lxc(void **state)
{
	CHECK({"/lxc/web", "", "", "lxc", "web"},
	      {"/lxc/101/ns/system.slice/ssh.service", "ssh.service", "system.slice", "lxc", "101"},
	      {"/lxc.payload.web/system.slice/nginx.service", "nginx.service", "system.slice", "lxc", "web"},
	      {"/lxc.payload.my.box-1", "", "", "lxc", "my.box-1"},
	      {"/lxc.payload/web/init.scope", "init.scope", "", "lxc", "web"}, {"/lxc.monitor.web"},
	      {"/lxc.monitor/web"}, {"/lxc"}, {"/lxc.payload"}, {"/lxc.payload."}, {"/lxc.pivot"},
	      {"/lxc/lxc.payload.web", "", "", "lxc", "web"}, {"/lxc/lxc.monitor.web"},
	      {"/lxc.payload.outer/lxc.payload.inner", "", "", "lxc", "inner"},
	      {"/lxc.payload.outer/lxc.monitor.inner", "", "", "lxc", "outer"},
	      {"/lxc.payload.web/docker/" ID, "", "", "docker", ID},
	      {"/user.slice/user-0.slice/session-c2.scope/lxc.payload.web", "session-c2.scope", "user-0.slice", "lxc",
	       "web"});
}

static void nspawn(void **state)
{
	CHECK({"/machine.slice/systemd-nspawn@demo.service/payload", "systemd-nspawn@demo.service", "machine.slice",
	       "nspawn", "demo"},
	      {"/machine.slice/systemd-nspawn@my\\x2dbox.service/payload/system.slice/cron.service", "cron.service",
	       "system.slice", "nspawn", "my-box"},
	      {"/machine.slice/systemd-nspawn@demo.service", "systemd-nspawn@demo.service", "machine.slice", "nspawn",
	       "demo"},
	      {"/machine.slice/systemd-nspawn@demo.service/supervisor", "systemd-nspawn@demo.service", "machine.slice"},
	      {"/machine.slice/machine-demo.scope", "machine-demo.scope", "machine.slice", "nspawn", "demo"},
	      {"/machine.slice/machine-my\\x2dbox.scope/payload", "machine-my-box.scope", "machine.slice", "nspawn",
	       "my-box"},
	      {"/machine.slice/machine-demo.scope/supervisor", "machine-demo.scope", "machine.slice"},
	      {"/machine.slice/systemd-nspawn@.service", "systemd-nspawn@.service", "machine.slice"},
	      /* Virtual machines of libvirt are no containers. */
	      {"/machine.slice/machine-qemu\\x2d1\\x2ddebian12.scope/libvirt/emulator", "machine-qemu-1-debian12.scope",
	       "machine.slice"},
	      {"/machine.slice/machine-qemu\\x2dbox.scope", "machine-qemu-box.scope", "machine.slice", "nspawn",
	       "qemu-box"});
}

static void ecs(void **state)
{
	CHECK({"/ecs/" TASK "/" ID, "", "", "ecs", ID}, {"/ecs/" UID "/" ID, "", "", "ecs", ID},
	      {"/ecs/" TASK "/" TASK "-1234567890", "", "", "ecs", TASK "-1234567890"},
	      {"/ecs/" TASK "-1234567890/" ID, "", "", "ecs", ID}, {"/ecs/" TASK}, {"/ecs"}, {"/ecs/web/" ID},
	      {"/ecs/" TASK "/web"}, {"/ecs/" TASK "-x/" ID}, {"/ecs/" TASK "-/" ID}, {"/ecs/" TASK "/" TASK},
	      {"/ecstasks.slice/ecstasks-" TASK ".slice/docker-" ID ".scope", "docker-" ID ".scope",
	       "ecstasks-" TASK ".slice", "docker", ID});
}

static void labels_are_valid_text_and_paths_raw(void **state)
{
	static const struct {
		const char *path, *label;
	} cases[] = {
	    {"/a\"b\\c\nd\te", "/a\"b\\c\nd\te"},
	    {"/caf\xc3\xa9", "/caf\xc3\xa9"},
	    {"/a\xff/b\xc3", "/a\xef\xbf\xbd/b\xef\xbf\xbd"},
	    {"/\xed\xa0\x80", "/\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
	    {"/x\\x2dy", "/x\\x2dy"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct identity *id;

		assert_int_equal(identity_parse(cases[i].path, strlen(cases[i].path), &id), 0);
		assert_string_equal(id->path, cases[i].path);
		assert_string_equal(id->label, cases[i].label);
		identity_free(id);
	}
}

static void a_machine_may_have_a_name_that_is_no_text(void **state)
{
	struct identity *id;

	assert_int_equal(identity_parse("/lxc/b\xffx", 8, &id), 0);
	assert_string_equal(id->container_id, "b\xef\xbf\xbdx");
	identity_free(id);
}

static void the_longest_names_and_paths_are_parsed(void **state)
{
	char path[4097] = "";
	struct identity *id;

	memset(path, 'u', 256);
	path[0] = '/';
	strcpy(path + 256 - 8, ".service");
	assert_int_equal(identity_parse(path, 256, &id), 0);
	assert_string_equal(id->unit, path + 1);
	identity_free(id);

	for (size_t i = 0; i < 4096; i++)
		path[i] = i % 2 ? 'a' : '/';
	assert_int_equal(identity_parse(path, 4096, &id), 0);
	assert_string_equal(id->path, path);
	assert_string_equal(id->label, path);
	identity_free(id);

	memset(path, '/', 4096);
	assert_int_equal(identity_parse(path, 4096, &id), 0);
	assert_string_equal(id->unit, "");
	identity_free(id);
}

static void only_len_bytes_are_read(void **state)
{
	static const char path[] = "/a.service/b.service";
	auto_free char *exact = malloc(10);
	struct identity *id = NULL;

	assert_non_null(exact);
	memcpy(exact, path, 10);
	assert_int_equal(identity_parse(exact, 10, &id), 0);
	assert_string_equal(id->path, "/a.service");
	assert_string_equal(id->unit, "a.service");
	identity_free(id);

	id = NULL;
	assert_int_equal(identity_parse("", 0, &id), -EINVAL);
	assert_int_equal(identity_parse("\0a", 2, &id), -EINVAL);
	assert_null(id);
}

static void garbage_does_no_harm(void **state)
{
	static const char *const parts[] = {"docker",   "-",         ID,
					    "/",        "/",         ".scope",
					    ".slice",   "kubepods",  "-pod",
					    UID_,       "pod",       UID,
					    "lxc",      ".payload.", "\\x",
					    "2d",       "\xc3",      ":",
					    "ecs",      TASK,        "systemd-nspawn@",
					    ".service", "machine-",  "supervisor",
					    "_",        "\n",        "qemu\\x2d1\\x2d"};

	srand(5);
	for (int i = 0; i < 50000; i++) {
		char path[2048] = "/";
		struct identity *id;
		int n = rand() % 14;

		for (int k = 0; k < n; k++)
			strcat(path, parts[(size_t)rand() % ARRAY_SIZE(parts)]);
		assert_int_equal(identity_parse(path, strlen(path), &id), 0);
		assert_true(utf8_valid(id->label, strlen(id->label)));
		assert_true(utf8_valid(id->unit, strlen(id->unit)));
		assert_true(utf8_valid(id->slice, strlen(id->slice)));
		assert_true(utf8_valid(id->container_id, strlen(id->container_id)));
		assert_int_equal(!*id->runtime, !*id->container_id);
		assert_true(!*id->pod_uid || strlen(id->pod_uid) == 36 || strlen(id->pod_uid) == 32);
		identity_free(id);
	}
}

static void pseudo_identities_are_labels_only(void **state)
{
	struct identity *id;

	assert_int_equal(identity_pseudo(IDENTITY_OTHER, &id), 0);
	assert_string_equal(id->label, "other");
	assert_string_equal(id->path, "other");
	assert_string_equal(id->unit, "");
	assert_string_equal(id->slice, "");
	assert_string_equal(id->runtime, "");
	assert_string_equal(id->container_id, "");
	assert_string_equal(id->pod_uid, "");
	identity_free(id);
	assert_null(identity_free(NULL));
	assert_null(identity_free(calloc(1, sizeof(struct identity))));
}

/* ---- filter ---- */

static int pass(char *const *include, size_t n_include, char *const *exclude, size_t n_exclude, const char *path)
{
	struct filter *f = NULL;
	int r;

	assert_int_equal(filter_new(include, n_include, exclude, n_exclude, &f), 0);
	r = filter_pass(f, path);
	filter_free(f);
	return r;
}

static void a_cgroup_passes_if_included_and_not_excluded(void **state)
{
	char *all[] = {"/**"}, *some[] = {"/system.slice/**", "/**/docker-*.scope"},
	     *out[] = {"/**/sshd.service", "/init.scope"};

	assert_int_equal(pass(all, 1, NULL, 0, "/"), 1);
	assert_int_equal(pass(all, 1, NULL, 0, "/a/b"), 1);
	assert_int_equal(pass(NULL, 0, NULL, 0, "/a"), 0);
	assert_int_equal(pass(some, 2, NULL, 0, "/system.slice"), 1);
	assert_int_equal(pass(some, 2, NULL, 0, "/user.slice/docker-1.scope"), 1);
	assert_int_equal(pass(some, 2, NULL, 0, "/user.slice"), 0);
	assert_int_equal(pass(some, 2, out, 2, "/system.slice/sshd.service"), 0);
	assert_int_equal(pass(some, 2, out, 2, "/system.slice/cron.service"), 1);
	assert_int_equal(pass(all, 1, all, 1, "/a"), 0);
}

static void patterns_are_copied_and_checked(void **state)
{
	char pattern[] = "/a", *include[] = {pattern, "/b"}, *bad[] = {"/b", "/["};
	struct filter *f = NULL;

	assert_int_equal(filter_new(include, 2, NULL, 0, &f), 0);
	pattern[1] = 'x';
	assert_int_equal(filter_pass(f, "/a"), 1);
	filter_free(f);

	f = NULL;
	assert_int_equal(filter_new(bad, 2, NULL, 0, &f), -EINVAL);
	assert_int_equal(filter_new(include, 2, bad, 2, &f), -EINVAL);
	assert_null(f);
	assert_null(filter_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(units_and_slices_of_systemd),
	    cmocka_unit_test(escapes_of_systemd_are_decoded),
	    cmocka_unit_test(docker),
	    cmocka_unit_test(ids_have_the_right_form_or_are_none),
	    cmocka_unit_test(kubernetes_with_the_systemd_driver),
	    cmocka_unit_test(kubernetes_with_the_cgroupfs_driver),
	    cmocka_unit_test(kubernetes_in_containers),
	    cmocka_unit_test(podman),
	    cmocka_unit_test(lxc),
	    cmocka_unit_test(nspawn),
	    cmocka_unit_test(ecs),
	    cmocka_unit_test(labels_are_valid_text_and_paths_raw),
	    cmocka_unit_test(a_machine_may_have_a_name_that_is_no_text),
	    cmocka_unit_test(the_longest_names_and_paths_are_parsed),
	    cmocka_unit_test(only_len_bytes_are_read),
	    cmocka_unit_test(garbage_does_no_harm),
	    cmocka_unit_test(pseudo_identities_are_labels_only),
	    cmocka_unit_test(a_cgroup_passes_if_included_and_not_excluded),
	    cmocka_unit_test(patterns_are_copied_and_checked),
	};
	return cmocka_run_group_tests_name("identity", tests, NULL, NULL);
}
