package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/chronik-io/chronik/internal/testing/must"
)

func parse(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	c := Default()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	c.Bind(fs)
	must.OK(t, fs.Parse(args))
	return c.Complete()
}

func TestDefaults(t *testing.T) {
	c, err := parse(t)
	must.OK(t, err)
	if c.Clients != ClientsOwn || c.Concurrency != 128 || c.Pipeline != 1 || c.Acks != AcksAll || c.MessageSize != 256 ||
		c.Mode != ModeProduce {
		t.Errorf("%+v", c)
	}
	if c, err := parse(t, "--batched"); err != nil || c.Clients != ClientsBatched || c.Concurrency != 1 {
		t.Errorf("--batched: %+v, %v", c, err)
	}
	if c, err := parse(t, "--batched", "-c", "3"); err != nil || c.Concurrency != 3 {
		t.Errorf("--batched -c 3: %+v, %v", c, err)
	}
}

func TestFlagsReachTheConfig(t *testing.T) {
	c, err := parse(
		t,
		"--bootstrap-servers",
		"a:1,b:2",
		"--topic",
		"x",
		"--mode",
		"e2e",
		"--clients",
		"shared",
		"-c",
		"9",
		"-d",
		"3s",
		"-s",
		"100",
		"--acks",
		"1",
		"--create-topic",
		"--partitions",
		"4",
		"--replication-factor",
		"3",
		"--compression",
		"zstd",
		"--rate",
		"5000",
		"--warmup",
		"1s",
		"--verify",
		"--topic-config",
		"a=b",
		"--topic-config",
		"c=d=e",
		"--server-pid",
		"12",
		"--delete-topic",
		"--fetch-max-bytes",
		"65536",
		"--consumers",
		"0",
	)
	must.OK(t, err)
	if strings.Join(c.Brokers, " ") != "a:1 b:2" || c.Topic != "x" || c.Mode != ModeE2E || c.Clients != ClientsShared ||
		c.Concurrency != 9 ||
		c.Duration != 3*time.Second || c.MessageSize != 100 || c.Acks != AcksLeader || !c.CreateTopic || c.Partitions != 4 ||
		c.ReplicationFactor != 3 ||
		c.Compression != "zstd" || c.Rate != 5000 || c.Warmup != time.Second || !c.Verify || c.TopicConfig["a"] != "b" ||
		c.TopicConfig["c"] != "d=e" ||
		c.ServerPID != 12 || !c.DeleteTopic ||
		c.FetchMaxBytes != 65536 {
		t.Errorf("%+v", c)
	}
}

func TestEveryWrongSettingIsNamed(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--bootstrap-servers here", "--bootstrap-servers"},
		{"--bootstrap-servers=", "--bootstrap-servers"},
		{"--topic=", "--topic"},
		{"--consumers 3", "--consumers"},
		{"--mode e2e --consumers -1", "--consumers"},
		{"--mode e2e --consumers 65537", "--consumers"},
		{"--mode e2e --consumers 3 --create-topic --partitions 2", "--partitions"},
		{"--mode walk", "--mode"},
		{"--clients many", "--clients"},
		{"--batched --clients own", "--batched"},
		{"-c -1", "--concurrency"},
		{"-c 70000", "--concurrency"},
		{"--pipeline 2000", "--pipeline"},
		{"--pipeline 2 --clients shared", "--pipeline"},
		{"-s -1", "--message-size"},
		{"-s 27 --verify", "--message-size"},
		{"-s 27 --mode e2e", "--message-size"},
		{"--acks 2", "--acks"},
		{"--acks -1", "--acks"},
		{"--compression brotli", "--compression"},
		{"--rate -1", "--rate"},
		{"--rate NaN", "--rate"},
		{"--rate Inf", "--rate"},
		{"--rate 1e300", "--rate"},
		{"--rate 1e-300", "--rate"},
		{"--rate 1 --mode consume", "--rate"},
		{"--warmup -1s", "--warmup"},
		{"-d 0s", "--duration"},
		{"--verify --mode consume", "--verify"},
		{"--fetch-max-bytes 1", "--fetch-max-bytes"},
		{"--server-pid -1", "--server-pid"},
		{"--partitions 0", "--partitions"},
		{"--replication-factor 0", "--replication-factor"},
		{"--topic x --topic-config a=b", "--topic-config"},
		{"--admin x", "--admin"},
		{"--create-topic --topic-config =b", "--topic-config"},
	} {
		_, err := parse(t, strings.Fields(c.args)...)
		if err == nil || !strings.Contains(err.Error(), c.want+":") {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	_, err := parse(t, "--acks", "2", "--partitions", "0")
	if err == nil || !strings.Contains(err.Error(), "--acks") || !strings.Contains(err.Error(), "--partitions") {
		t.Errorf("two wrong settings: %v", err)
	}
}
