package txncases

import (
	"os"
	"os/exec"
	"testing"
)

// Kafka gives the answers that the cases expect of it. This needs CHRONIK_TXN_KAFKA, the address of
// a broker of Apache Kafka; the cases that kill it also need CHRONIK_TXN_RESTART, a command that
// ends it as SIGKILL does and starts it again. Without them nothing is asked: the cases are part of
// chronik's own tests elsewhere.
func TestKafkaAnswersSo(t *testing.T) {
	p := Peer{Address: os.Getenv("CHRONIK_TXN_KAFKA"), Kafka: true, Long: true}
	if p.Address == "" {
		return
	}
	if command := os.Getenv("CHRONIK_TXN_RESTART"); command != "" {
		p.Kill = func(t testing.TB) {
			if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	Run(t, p)
}
