// Package system tests chronikd and chronikctl as processes: starts, signals, kills, losses of
// power, full and failing disks, several brokers, attacks. Each test starts the real programs on
// the real file system and speaks to them as a client, a script or an operator does.
//
// CHRONIKD names the binary to test; without it the test binary is chronikd, slow and faulty disks
// included. The package has no code of its own outside its tests, and no package imports it.
package system
