package system

import (
	"math/rand/v2"
	"os"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/txncases"
)

// The built binary answers transactional requests as Kafka does, or otherwise on purpose, also
// those of zombies; and it ends each transaction as a whole when it dies in any phase.
func TestKillLeavesTransactionsAsKafkaDoes(t *testing.T) {
	t.Parallel() // it waits for the disk and for processes most of the time
	m := newMortal(t, rand.New(rand.NewPCG(rand.Uint64(), 0)))
	txncases.Run(t, txncases.Peer{Address: m.addr, Kill: m.kill, Long: os.Getenv("CHRONIK_KILLS") != ""})
	m.end(t)
}
