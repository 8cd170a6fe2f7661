# How much of the store's CPU does an ack take, in batches as a relay sends them?
#
# The scripts are called as the relay calls them, on a store of the bench's own; what counts is the
# server's CPU time for the acks alone, by its own account. Messages were shown before, as they are
# in earnest: so each has a time at which it is due, and a trail.
use strict;
use warnings;

use Clairon::Test qw(scratch);
use Test::More;

my $folder = Clairon::Test::top() . '/relay/store/scripts';
my $pairs  = $ENV{ACKS_PAIRS} // 40000;
my $batch  = $ENV{ACKS_BATCH} // 1000;
my $aim    = 100_000;

# A script with what it includes, as the relay has it.
sub script
{
    my ($name) = @_;
    my $text = '';
    open my $file, '<', "$folder/$name.lua" or die "$name.lua: $!\n";
    while (my $line = <$file>)
    {
        if ($line =~ /^-- include: (\S+)/)
        {
            open my $part, '<', "$folder/parts/$1" or die "$1: $!\n";
            local $/ = undef;
            $line = <$part>;
        }
        $text .= $line;
    }
    return $text;
}

my %texts = map { $_ => script($_) } qw(hello publish shown ack);

# The CPU seconds that the server has used.
sub cpu
{
    my ($store) = @_;
    my %used = $store->ask('INFO', 'cpu') =~ /^(used_cpu_user|used_cpu_sys):([\d.]+)/mg;
    return $used{used_cpu_user} + $used{used_cpu_sys};
}

# So many users of each message acknowledge it, in an order that mixes all.
sub measure
{
    my ($users) = @_;
    my $store   = Clairon::Test::store(options => [ '--appendonly', 'no' ]);
    my %sha     = map { $_ => $store->ask('SCRIPT', 'LOAD', $texts{$_}) } keys %texts;
    my $run     = sub { my ($name, @words) = @_;
        return $store->ask('EVALSHA', $sha{$name}, 1, 'clairon:stream', 'clairon', @words) };
    $run->('hello', 'fresh', '', '0-0');
    my $epoch = $store->ask('HGET', 'clairon:meta', 'epoch');
    my @names = map { "user$_" } 1 .. 1000;
    my @acks;
    for my $number (1 .. $pairs / $users)
    {
        my $id = sprintf '0190f5c8-1111-7000-8000-%012x', $number;
        my @of = map { $names[ ($number * $users + $_) % @names ] } 1 .. $users;
        $run->('publish', $epoch, '', 'd', 1000, 'A', $id, "\0" x 64, '{"payload":"' . 'x' x 500 . '"}', 'USER', @of);
        push @acks, map { [ $_, $id ] } @of;
    }
    for (my $at = 0; $at < @acks; $at += 500)
    {
        my $last = $at + 499 < @acks ? $at + 499 : $#acks;
        $run->('shown', 30000, 1000, 300000, 86400000, map { ('SEC', @$_) } @acks[ $at .. $last ]);
    }
    srand 1;
    my %place = map { $_ => rand } 0 .. $#acks;
    @acks = @acks[ sort { $place{$a} <=> $place{$b} } 0 .. $#acks ] if $users > 1;
    my ($began, $acked) = (cpu($store), 0);
    for (my $at = 0; $at < @acks; $at += $batch)
    {
        my $last = $at + $batch - 1 < @acks ? $at + $batch - 1 : $#acks;
        $acked += $run->('ack', 'relay', 86400000, $last - $at + 1, (map { ($_->[0], 1) } @acks[ $at .. $last ]),
            map { $_->[1] } @acks[ $at .. $last ])->[0];
    }
    my $used = cpu($store) - $began;
    is($acked, scalar(@acks), "all are taken, $users users a message");
    note(sprintf 'bench: acks of %4d users a message, %d in a batch: %7d /s of a store\'s core, %.1f us each  (aim: %d)',
        $users, $batch, $acked / $used, $used / $acked * 1e6, $aim);
    $store->stop;
    return;
}

measure($_) for split /,/, $ENV{ACKS_USERS} // '1,10,1000';
done_testing();
