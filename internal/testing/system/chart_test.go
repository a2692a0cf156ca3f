package system

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"go.yaml.in/yaml/v3"
)

// manifest is what the test uses of an object of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string // of a ConfigMap
	Spec     struct {
		podSpec  `yaml:",inline"` // of a Pod
		Replicas int
		Template struct{ Spec podSpec }
	}
}

type podSpec struct {
	Containers     []podContainer
	InitContainers []podContainer `yaml:"initContainers"`
}

type podContainer struct {
	Name           string
	Command, Args  []string
	Env            []variable
	Ports          []port
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	StartupProbe   probe `yaml:"startupProbe"`
}

type variable struct {
	Name, Value string
	ValueFrom   struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

type probe struct {
	HTTPGet struct{ Path, Port, Scheme string } `yaml:"httpGet"`
}

// chart is a release of deploy/helm/chronik whose pods are processes. Each has an address of
// loopback in the place of its host name, and directories in the place of its volumes.
type chart struct {
	*testing.T
	name      string // of the StatefulSet
	broker    podContainer
	test      podSpec
	addresses []string
	dir       string
	run       []*process
	replace   *strings.Replacer // of host names and of paths, except those of one pod
}

// What helm renders of deploy/helm/chronik runs: the command, the arguments, the environment and
// the files of each pod. They restart in the order of a StatefulSet, the next one when the
// readiness probe of the one before succeeds, and no record is refused meanwhile. The containers of
// helm test succeed. CHRONIK_CHARTS are files that scripts/helm.sh has rendered.
func TestChart(t *testing.T) {
	files := strings.Fields(os.Getenv("CHRONIK_CHARTS"))
	if len(files) == 0 {
		t.Skip("make helm runs it")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := readChart(t, file, t.TempDir(), loopbackNet())
			c.startAll(0)
			c.rolls()
			c.testsAndEnds()
		})
	}
	// A release with one broker is upgraded to three: the new pods start first.
	t.Run("growth", func(t *testing.T) {
		dir, net := t.TempDir(), loopbackNet()
		one := readChart(t, files[0], dir, net)
		one.startAll(0)
		c := readChart(t, files[1], dir, net)
		c.run[0] = one.run[0]
		c.startAll(1)
		if err := c.run[0].end(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		c.start(0)
		c.await(0)
		c.rolls()
		c.testsAndEnds()
	})
}

// loopbackNet returns the beginning of addresses of loopback that no other test has.
func loopbackNet() string { return fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250)) }

func (c *chart) startAll(from int) {
	c.Helper()
	for i := from; i < len(c.run); i++ {
		c.start(i)
	}
	for i := from; i < len(c.run); i++ {
		c.await(i)
	}
}

// testsAndEnds runs helm test, and ends all pods.
func (c *chart) testsAndEnds() {
	c.Helper()
	for _, x := range append(c.test.InitContainers, c.test.Containers...) {
		c.runs(x)
	}
	for _, p := range c.run {
		if err := p.end(syscall.SIGTERM); err != nil {
			c.Error(err)
		}
	}
}

func readChart(t *testing.T, file, dir, net string) *chart {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c := &chart{T: t, dir: dir}
	config := map[string]string{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var m manifest
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch m.Kind {
		case "StatefulSet":
			c.name, c.broker, c.run = m.Metadata.Name, m.Spec.Template.Spec.Containers[0], make([]*process, m.Spec.Replicas)
		case "ConfigMap":
			config = m.Data
		case "Pod":
			c.test = m.Spec.podSpec
		}
	}
	names := []string{}
	for i := range c.run {
		c.addresses = append(c.addresses, fmt.Sprint(net, i+1))
		host := regexp.MustCompile(regexp.QuoteMeta(fmt.Sprintf("%s-%d.", c.name, i)) + `[a-z0-9.-]+`).FindString(config[c.pod(0)+".yaml"])
		names = append(names, host, c.addresses[i])
	}
	c.replace = strings.NewReplacer(append(names, "/etc/chronik", c.dir)...)
	c.write("config", "", "")
	for name, text := range config {
		c.write("config", name, text)
	}
	if strings.Contains(string(text), "/etc/chronik/secure/") {
		c.secure()
	}
	return c
}

func (c *chart) pod(i int) string { return fmt.Sprintf("%s-%d", c.name, i) }

// write writes a file of a volume. The addresses of listeners are those of the pod that reads it.
func (c *chart) write(volume, name, text string) {
	c.Helper()
	if err := os.MkdirAll(filepath.Join(c.dir, volume), 0o700); err != nil {
		c.Fatal(err)
	}
	if name == "" {
		return
	}
	text = c.replace.Replace(text)
	for i, address := range c.addresses {
		if name == c.pod(i)+".yaml" {
			text = strings.ReplaceAll(text, `":9`, `"`+address+`:9`)
			text = strings.ReplaceAll(text, "/var/lib/chronik", filepath.Join(c.dir, c.pod(i)))
		}
	}
	if err := os.WriteFile(filepath.Join(c.dir, volume, name), []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
}

// secure makes the Secret as docs/kubernetes.md describes.
func (c *chart) secure() {
	c.Helper()
	c.write("secure", "password", "a long password\n")
	made := filepath.Join(c.dir, "made")
	init := exec.Command("chronikd", "secure", "init", made, "--nodes", strings.Join(c.addresses, ","), "--no-context",
		"--password-file", filepath.Join(c.dir, "secure", "password"))
	if out, err := init.CombinedOutput(); err != nil {
		c.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(made, "node-*", "*"))
	if err != nil || len(files) == 0 {
		c.Fatal(files, err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			c.Fatal(err)
		}
		c.write("secure", filepath.Base(filepath.Dir(f))+"."+filepath.Base(f), string(text))
	}
}

// expand returns the arguments and the environment of a container.
func (c *chart) expand(x podContainer, pod string) (args, env []string) {
	var values []string
	for _, v := range x.Env {
		if v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			v.Value = pod
		}
		env = append(env, v.Name+"="+c.replace.Replace(v.Value))
		values = append(values, "$("+v.Name+")", v.Value)
	}
	for _, a := range append(x.Command[1:], x.Args...) {
		args = append(args, c.replace.Replace(strings.NewReplacer(values...).Replace(a)))
	}
	return args, env
}

func (c *chart) start(i int) {
	c.Helper()
	args, env := c.expand(c.broker, c.pod(i))
	p, err := launch(c.dir, env, args...)
	if err != nil {
		c.Fatal(err)
	}
	c.run[i] = p
	c.Cleanup(func() {
		_ = p.end(syscall.SIGKILL)
		if c.Failed() {
			c.Logf("%s:\n%s", c.pod(i), p.logged())
		}
	})
}

// await waits for the probes of a pod: that of its start, and that of its readiness.
func (c *chart) await(i int) {
	c.Helper()
	for _, p := range []probe{c.broker.StartupProbe, c.broker.ReadinessProbe, c.broker.LivenessProbe} {
		for deadline := time.Now().Add(startTime); ; pause(c.Context(), 20*time.Millisecond) {
			why := c.probe(i, p)
			if why == "" {
				break
			}
			if time.Now().After(deadline) {
				c.Fatalf("%s: %s: %s", c.pod(i), p.HTTPGet.Path, why)
			}
		}
	}
}

// probe returns why a probe of a pod fails, "" if it succeeds.
func (c *chart) probe(i int, p probe) string {
	at := 0
	for _, x := range c.broker.Ports {
		if x.Name == p.HTTPGet.Port {
			at = x.ContainerPort
		}
	}
	ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
	defer cancel()
	url := fmt.Sprintf("%s://%s:%d%s", strings.ToLower(p.HTTPGet.Scheme), c.addresses[i], at, p.HTTPGet.Path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	kubelet := http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := kubelet.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK {
		return ""
	}
	return fmt.Sprint(resp.Status, string(text), err)
}

// client returns a client as an application would have it.
func (c *chart) client() *kgo.Client {
	c.Helper()
	var seeds []string
	for _, a := range c.addresses {
		seeds = append(seeds, fmt.Sprintf("%s:%d", a, c.broker.Ports[0].ContainerPort))
	}
	opts := []kgo.Opt{kgo.SeedBrokers(seeds...), kgo.AllowAutoTopicCreation()}
	if password, err := os.ReadFile(filepath.Join(c.dir, "secure", "password")); err == nil {
		authority, err := os.ReadFile(filepath.Join(c.dir, "secure", "node-1.ca.pem"))
		if err != nil {
			c.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		login := scram.Auth{User: "admin", Pass: strings.TrimSpace(string(password))}
		opts = append(opts, kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), kgo.SASL(login.AsSha512Mechanism()))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(cl.Close)
	return cl
}

// rolls restarts all pods as an upgrade of the StatefulSet does, under load. The copies are slow,
// so that a pod serves long before its replicas are in sync.
func (c *chart) rolls() {
	c.Helper()
	cl := c.client()
	adm, all, rate := kadm.NewClient(cl), "*", "500000"
	succeeds(c.T)(adm.CreateTopic(c.Context(), 3, -1, map[string]*string{"leader.replication.throttled.replicas": &all}, "load"))
	succeeds(c.T)(adm.AlterBrokerConfigs(c.Context(), []kadm.AlterConfig{{Name: "leader.replication.throttled.rate", Value: &rate}}))
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	acked := make(chan struct{}, 1)
	var load sync.WaitGroup
	load.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			within, cancel := context.WithTimeout(context.Background(), startTime)
			err := cl.ProduceSync(within, &kgo.Record{Topic: "load", Value: fmt.Append(nil, n)}).FirstErr()
			cancel()
			if err != nil {
				c.Errorf("record %d: %v", n, err)
				return
			}
			select {
			case acked <- struct{}{}:
			default:
			}
		}
	})
	progress := func() {
		for range 2 {
			select {
			case <-acked:
			case <-time.After(startTime):
				c.Fatal("no record is acknowledged")
			}
		}
	}
	progress()
	for i := len(c.run) - 1; i >= 0; i-- {
		if err := c.run[i].end(syscall.SIGTERM); err != nil {
			c.Fatalf("%s: %v", c.pod(i), err)
		}
		within, cancel := context.WithTimeout(c.Context(), startTime)
		for range min(40, 40*(len(c.run)-1)) {
			if err := cl.ProduceSync(within, &kgo.Record{Topic: "load", Value: make([]byte, 50_000)}).FirstErr(); err != nil {
				c.Fatal(err)
			}
		}
		cancel()
		c.start(i)
		c.await(i)
		c.inSync(cl, i)
		progress()
	}
	stop()
	load.Wait()
}

// inSync fails the test if a replica of a pod is not in sync, as the pod itself shows it.
func (c *chart) inSync(cl *kgo.Client, i int) {
	c.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil
	resp, err := cl.Broker(i+1).RetriableRequest(c.Context(), req)
	if err != nil {
		c.Fatal(err)
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		for _, p := range t.Partitions {
			if slices.Contains(p.Replicas, int32(i+1)) && !slices.Contains(p.ISR, int32(i+1)) {
				c.Errorf("%s is ready, and not in sync in %s-%d", c.pod(i), *t.Topic, p.Partition)
			}
		}
	}
}

// runs runs a container of helm test to its end.
func (c *chart) runs(x podContainer) {
	c.Helper()
	args, env := c.expand(x, "test")
	cmd := exec.CommandContext(c.Context(), filepath.Base(x.Command[0]), args...)
	cmd.Env = append(os.Environ(), append(env, "HOME="+c.TempDir())...)
	out, err := cmd.CombinedOutput()
	if err != nil || x.Name == "consume" && string(out) != "one\ntwo\nthree\n" {
		c.Errorf("%s %q: %v\n%s", x.Name, args, err, out)
	}
}
