// Package quota decides for how long a client has to wait because it was too fast: which quota
// applies to it (KIP-55, KIP-257, KIP-546), and how much of it is left.
//
// A quota is a rate. What a client uses is charged whole to a token bucket that may go into debt;
// the client waits until the debt is paid (KIP-219), and a request that comes before waits for its
// Turn. Kafka measures rates over eleven windows of a second instead, which lets a client have
// eleven times its rate in one second after it was idle. A bucket holds a quarter of a second of
// its rate, so that a client gets at most 2.5 % more than its rate in ten seconds. Buckets of
// partitions that are created or deleted (KIP-599), and of new connections (KIP-612), hold eleven
// seconds: both come in bursts.
//
// The package is pure: it has no goroutines, and the time is given to it. It knows neither requests
// nor connections.
package quota
