// Package sharing measures share groups on one broker or, alternately, on two: records that members
// have acknowledged per second, the times of an acknowledgement and of a delivery, by the number of
// members and partitions.
//
// It promises that every figure is of records whose acknowledgement was answered without an error,
// and that ratios are computed within a round. A load without a success ends the measurement
// after the complete rounds. cmd/chronik-bench offers it as `share`. Its clients are kgo's; it
// knows nothing of the broker's insides.
package sharing
