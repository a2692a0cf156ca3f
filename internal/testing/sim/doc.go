// Package sim walks at random through the histories of one replicated partition, and judges them.
// It has no code of its own outside its tests, and no package imports it.
//
// The walks run the code of internal/replica/progress, internal/controller/election and
// internal/storage/epochs. Around it, the tests simulate three to five brokers, a linearizable
// metadata store, metadata images that lag behind it, replica streams, disks, processes and
// clients. One random seed determines a walk, so that a failing one can be repeated.
//
// Each rule of the design can be removed, and the tests fail unless the walks then find a
// violation.
package sim
