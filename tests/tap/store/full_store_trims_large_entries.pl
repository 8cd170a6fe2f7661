# Tests that a relay trims a full store, although it must first move a large pending entry, whose data a full store rejects.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Clock;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q(CREATE TABLE large (owner text, c1 text, c2 text);
    SELECT clairon.watch('large', 'USER', 'owner', ack_required => true)));
my $store = Clairon::Test::store();
my $clock = Clairon::Test::Clock->new;
my $relay = $clock->start(sub { Clairon::Test::relay($pg, $store, conf => { 'store.retention' => '1s', 'delivery.ack_timeout' => '1h' }) });

$pg->safe_psql('postgres', q(INSERT INTO large SELECT 'u1', repeat('x', 600000), repeat('y', 600000)));
$pg->safe_psql('postgres', q(SELECT count(clairon.notify('USER', '{u1}', '{"mark": "small"}')) FROM generate_series(1, 300)));
wait_until('all notifications are stored', sub { $store->entries == 301 });
my ($first) = $store->entries;
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
$clock->advance_until(61, 'the relay trims the stream', sub { $store->entries == 1 });    # it trims once a minute
my ($kept) = $store->entries;
is($kept->{id}, $first->{id}, 'the pending notification remains');
isnt($kept->{entry}, $first->{entry}, 'its entry has moved');
cmp_ok(length $kept->{data}, '>', 1_200_000, 'with its data');

done_testing();
