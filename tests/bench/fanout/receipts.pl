# Measures the CPU time of the store for a pair, from the frame to its acknowledgement, with and without receipts, and with
# sinks that read the receipts meanwhile.
#
# Calls the scripts on a private store, in batches as a feed and a relay send them. The rounds of all kinds alternate, because
# the speed of a machine varies.
use strict;
use warnings;

use Clairon::Test qw(script_text);
use List::Util qw(min);
use Measure qw(figure median);
use Targets;
use Test::More;

my $pairs  = $ENV{RECEIPTS_PAIRS}  // 20000;
my $rounds = $ENV{RECEIPTS_ROUNDS} // 5;
my ($frames, $reports, $acks, $entries) = (256, 500, 2000, 32); # the batches of a feed, a relay and a sink
my $aim = 15;                                                     # percent of a pair without receipts
my @kinds = qw(none notification user);

my %texts = map { $_ => script_text($_) } qw(hello ingest report ack receipts_read receipts_ack);

# Calls `$send` with each batch of the items.
sub in_batches
{
    my ($size, $send, @items) = @_;
    $send->(splice @items, 0, $size) while @items;
    return;
}

sub cpu
{
    my ($store) = @_;
    my %used = $store->execute('INFO', 'cpu') =~ /^(used_cpu_user|used_cpu_sys):([\d.]+)/mg;
    return $used{used_cpu_user} + $used{used_cpu_sys};
}

# The header of a notification with acks and retries, as in decoder/protocol/frame_format.h.
sub route
{
    my ($kind) = @_;
    my $route = "\0" x 104;
    substr $route, 7, 1, chr(3 | ($kind ? 128 : 0));
    substr $route, 94, 1, chr $kind;
    return $route;
}

sub document
{
    my ($id) = @_;
    return qq({"metadata":{"id":"$id","timestamp":"2026-11-30T09:00:00.000000Z","priority":"LOW","type":"SYSTEM",)
      . qq("emitter":"alice","source":"public.message","topic":"inserts","operation":"insert"},"payload":") . 'x' x 400 . '"}';
}

# The arguments of ack.lua.
sub ack_arguments
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

# Returns the µs of the store for a pair, and of its sinks.
sub measure
{
    my ($kind, $users) = @_;
    my $store = Clairon::Test::store(options => [ '--appendonly', 'no' ]);
    my %sha   = map { $_ => $store->execute('SCRIPT', 'LOAD', $texts{$_}) } keys %texts;
    my $call  = sub { my ($name, @arguments) = @_;
        return $store->execute_bytes('EVALSHA', $sha{$name}, 2, 'clairon:stream', 'clairon:progress:s', 'clairon', @arguments) };
    my $epoch = $call->('hello', 'fresh', '', '0-0', 1, 1)->[0];
    $store->execute('HSET', 'clairon:progress:s', 'owner', 'o');
    srand 1;
    my ($header, $position, @frames, @pairs) = (route($kind), '');
    for my $number (1 .. $pairs / $users)
    {
        my $id = sprintf '0190f5c8-%04x-8%03x-%04x-%06x%06x', $number >> 4 & 0xffff, rand 4096, 0x8000 | rand 0x4000,
          rand 1 << 24, rand 1 << 24;
        my @of = map { 'user' . ($number * $users + $_) % 1000 } 1 .. $users;
        push @frames, [ sprintf('%016x%016x', $number, 1), $id, $header, document($id), 'USER', scalar(@of), @of ];
        push @pairs, map { [ $_, $id ] } @of;
    }
    my $began = cpu($store);
    # A call of ingest.lua adds 4000 pairs at most.
    in_batches(min($frames, 4000 / $users), sub { $call->('ingest', $epoch, 'o', $position, '', '', 1000, '', map { ('A', @$_) } @_); $position = $_[-1][0] }, @frames);
    in_batches($reports, sub { $call->('report', 30000, 1000, 300000, 86400000, map { ('SEC', @$_) } @_) }, @pairs);
    my %order = map { $_ => rand } 0 .. $#pairs;
    @pairs = @pairs[ sort { $order{$a} <=> $order{$b} } 0 .. $#pairs ] if $users > 1;
    my ($acked, $read, $sink_cpu) = (0, 0, 0);
    in_batches($acks, sub {
        $acked += $call->('ack', 'relay', 86400000, ack_arguments(@_))->[0];
        my $before = cpu($store);
        for my $sink ($kind ? qw(sql webhook) : ())
        {
            while (1)
            {
                my $reply   = $call->('receipts_read', $sink, 'relay', $entries, '', 0, '0');
                my %entries = @{ $reply->[7] } or last;
                $read += $_->[1] for values %entries;
                $call->('receipts_ack', $sink, $reply->[0], '', keys %entries);
            }
        }
        $sink_cpu += cpu($store) - $before;
    }, @pairs);
    my $used = cpu($store) - $began - $sink_cpu;
    is($acked, scalar(@pairs), "$kinds[$kind], $users users: all acks are applied");
    is($read, 2 * ($kind ? $pairs / $users + ($kind == 2 ? $pairs : 0) : 0), '.. and both sinks have their receipts');
    $store->stop;
    return map { 1e6 * $_ / $acked } $used, $sink_cpu;
}

for my $users (1, 20)
{
    my %us;
    for my $round (1 .. $rounds)
    {
        for my $kind (0 .. $#kinds)
        {
            my @measured = measure($kind, $users);
            push @{ $us{$kind}[$_] }, $measured[$_] for 0, 1;
        }
    }
    for my $kind (0 .. $#kinds)
    {
        my ($pair, $none, $sink) = (median(@{ $us{$kind}[0] }), median(@{ $us{0}[0] }), median(@{ $us{$kind}[1] }));
        my $more = 100 * ($pair / $none - 1);
        figure("delivery and ack, $users users per notification, receipts $kinds[$kind]",
            sprintf '%.1f us per pair (%+.0f %%), and %.1f us for two sinks', $pair, $more, $sink);
        next if !$kind;
        Targets::record("store CPU of receipts $kinds[$kind], $users users per notification", "at most +$aim %",
            sprintf('%+.0f %%', $more), $more <= $aim);
    }
}
done_testing();
