# Tests that the gap of what load shedding has dropped precedes the reply of a barrier, also while it continues.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::SheddableTables qw(insert names has);
use Clairon::Test::RawSocket;
use Socket qw(SOL_SOCKET SO_RCVBUF);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
Clairon::Test::SheddableTables::create($pg, [ bulk => q{'USER', '=slow', type => 'NOTIFICATION'} ]);
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'rows.timeout' => '60s', 'gate.ping' => '10m',
        'gate.slow_age' => '10m', 'gate.slow_bytes' => '1000MB', 'delivery.shed_bytes' => '200kB' });
my $id = 100;

sub shedding { return $relay->metric('clairon_shedding') }
sub barrier { my ($client) = @_; my $r = ++$id; $client->send({ t => 'barrier', r => $r }); return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }

# The kinds of the messages from this one on, without repetitions.
sub kinds_from
{
    my ($client, $first) = @_;
    my @kinds = map { $_->{t} } @{ $client->{messages} }[ $first .. $#{ $client->{messages} } ];
    return join ' ', @kinds[ grep { $_ == 0 || $kinds[$_] ne $kinds[ $_ - 1 ] } 0 .. $#kinds ];
}

# A client that does not read makes the relay short of memory.
my $slow = Clairon::Test::RawSocket->open($relay);
setsockopt $slow->{link}, SOL_SOCKET, SO_RCVBUF, 131072 or die "setsockopt: $!\n";
$slow->send_json({ t => 'connect', r => 1, token => Clairon::Test::token(sub => 'slow'), topics => ['postgres.bulk'] });
$slow->wait_message('connected');
my $live   = $relay->client('live');
my $narrow = $relay->client('narrow', topics => ['postgres.noted']);
my $bulk   = 0;
wait_until('the relay is short of memory', sub {
    $bulk += 20;
    $pg->safe_psql('postgres', "INSERT INTO bulk SELECT i, repeat('x', 10000) FROM generate_series($bulk - 19, $bulk) i");
    return shedding();
});
wait_until('dropping LOW is not sufficient', sub { shedding() == 2 });

for my $round (1, 2)
{
    my $seen = @{ $live->{messages} };
    my $row  = insert(qw(low normal noted));
    # A gap precedes the notifications that are still queued, and with them the rows that were dropped before them.
    $live->run_until('the row that is not dropped arrives', sub { has($live, "noted $row") }) if $round == 2;
    is(barrier($live)->{t}, 'barrier', "a reply during load shedding: $round");
    ok(!has($live, "low $row") && !has($live, "normal $row") && has($live, "noted $row"), "rows were dropped: $round");
    is($live->{messages}[-1]{t}, 'barrier', "the reply is the last message: $round");
    like(kinds_from($live, $seen), qr/\bgap\b.* barrier\z/, "the gap precedes the reply: $round");
    is($live->gaps, join(' ', ('shed') x $round), "one gap announces what was dropped: $round");
}
my ($gap) = grep { $_->{t} eq 'gap' } reverse @{ $live->{messages} };
barrier($live);
is($live->gaps, 'shed shed', 'without another dropped row, there is no gap');
barrier($narrow);
is($narrow->gaps, '', 'a client that missed no rows receives no gap');

# The end of the load shedding announces what was dropped later, only.
my $all = 0;
while ($all < $bulk) { $all++ if $slow->wait_message('msg') }
wait_until('the shortage has ended', sub { shedding() == 0 });
my $last = insert(qw(low normal noted));
barrier($live);
ok(has($live, "low $last") && has($live, "normal $last"), 'later rows arrive');
is($live->gaps, 'shed shed', 'what a barrier announced is not announced again');
my $resumed = $relay->client('live', pos => $gap->{to});
barrier($resumed);
is(names($resumed), "low $last normal $last noted $last", 'the cursor of the gap is after the rows that were dropped');

done_testing();
