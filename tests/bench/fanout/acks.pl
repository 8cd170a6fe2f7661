# Measures the CPU time of the store for an acknowledgement, in batches as a relay sends them.
#
# Calls the scripts as the relay does, on a private store. Only the server's CPU time during the acknowledgements
# counts. As in production, notifications are delivered first, so each notification has a due time and a trace.
use strict;
use warnings;

use Clairon::Test qw(scratch);
use Targets;
use Test::More;

my $pairs  = $ENV{ACKS_PAIRS} // 40000;
my $batch  = $ENV{ACKS_BATCH} // 2000; # the batch size of a relay
# Acknowledgements per second and core of the store. One acknowledgement per user and batch is the most expensive case.
my ($aim, $aim_alone) = (100_000, 90_000);

my %texts = map { $_ => Clairon::Test::script_text($_) } qw(hello publish report ack);

# Returns the CPU seconds that the server has used.
sub cpu
{
    my ($store) = @_;
    my %used = $store->execute('INFO', 'cpu') =~ /^(used_cpu_user|used_cpu_sys):([\d.]+)/mg;
    return $used{used_cpu_user} + $used{used_cpu_sys};
}

# Each notification is acknowledged by `$users` users in random order, or each user acknowledges `$row` notifications in
# one batch.
sub measure
{
    my ($users, $row) = @_;
    my $store   = Clairon::Test::store(options => [ '--appendonly', 'no' ]);
    my %sha     = map { $_ => $store->execute('SCRIPT', 'LOAD', $texts{$_}) } keys %texts;
    my $run     = sub { my ($name, @arguments) = @_;
        return $store->execute('EVALSHA', $sha{$name}, 1, 'clairon:stream', 'clairon', @arguments) };
    $run->('hello', 'fresh', '', '0-0', 1, 1); # one shard on one server
    my $epoch = $store->execute('HGET', 'clairon:meta', 'epoch');
    srand 1;
    my @names = map { "user$_" } 1 .. 1000;
    my @acks;
    for my $number (1 .. $pairs / $users)
    {
        # Returns an id like the decoder's ids: a timestamp, then random bits.
        my $id = sprintf '0190f5c8-%04x-8%03x-%04x-%06x%06x', $number >> 4 & 0xffff, rand 4096, 0x8000 | rand 0x4000,
          rand 1 << 24, rand 1 << 24;
        my @of = map { $names[ ($number / $row * $users + $_) % @names ] } 1 .. $users;
        $run->('publish', $epoch, '', 'd', 1000, 'A', $id, "\0" x 104, '{"payload":"' . 'x' x 500 . '"}', '', '', 0, 'USER', @of);
        push @acks, map { [ $_, $id ] } @of;
    }
    for (my $at = 0; $at < @acks; $at += 500)
    {
        my $last = $at + 499 < @acks ? $at + 499 : $#acks;
        $run->('report', 30000, 1000, 300000, 86400000, map { ('S', @$_) } @acks[ $at .. $last ]);
    }
    my %order = map { $_ => rand } 0 .. $#acks;
    @acks = @acks[ sort { $order{$a} <=> $order{$b} } 0 .. $#acks ] if $users > 1;
    my ($began, $acked) = (cpu($store), 0);
    for (my $at = 0; $at < @acks; $at += $batch)
    {
        my $last = $at + $batch - 1 < @acks ? $at + $batch - 1 : $#acks;
        $acked += $run->('ack', 'relay', 86400000, in_rows(@acks[ $at .. $last ]))->[0];
    }
    my $used = cpu($store) - $began;
    is($acked, scalar(@acks), "all acks of $users users per notification are applied");
    my $each = $acked / $used;
    my $least = $users == 1 && $row == 1 ? $aim_alone : $aim;
    note(sprintf 'bench: acks of %4d users per notification, %2d in a row by one user, %d per batch: %7d /s per core of the store, '
          . '%.1f us each  (aim: %d)', $users, $row, $batch, $each, 1e6 / $each, $least);
    Targets::record(sprintf('acks per core of the store, %d users per notification, %d in a row', $users, $row),
        "at least $least /s", sprintf('%d /s', $each), $each >= $least);
    $store->stop;
    return;
}

# Returns the arguments of the script: each user, the number of the user's acknowledgements, and their ids.
sub in_rows
{
    my @acks = sort { $a->[0] cmp $b->[0] } @_;
    my @rows;
    for my $ack (@acks)
    {
        if (@rows && $rows[-2] eq $ack->[0]) { $rows[-1]++ }
        else                                 { push @rows, $ack->[0], 1 }
    }
    return (@rows / 2, @rows, map { $_->[1] } @acks);
}

measure($_, 1) for split /,/, $ENV{ACKS_USERS} // '1,10,1000';
measure(1, 10) if !$ENV{ACKS_USERS};
done_testing();
