# Tests that a store that is killed at a denial of too many users who must acknowledge loses no row, keeps the owner's
# account, and counts each denial once, also when the store or the relay is killed before the reply.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Neighbour;
use Test::More;

my ($LIMIT, $MEMBERS) = (1000, 5000);    # more members than one script adds

my $pg        = Clairon::Test::postgresql('main');
my $store     = Clairon::Test::store(fsync => 'always');
my $late      = Clairon::Test::delayed_replies($store->{socket});
my $relay     = Clairon::Test::relay($pg, $late, conf => { 'feed.owner_pairs' => $LIMIT });
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
$pg->safe_psql('postgres', "INSERT INTO clairon.member SELECT 'TEAM', 'all', 'm' || i FROM generate_series(1, $MEMBERS) i");
my %owner = map { $_ => $pg->safe_psql('postgres', "CREATE ROLE $_ LOGIN; CREATE SCHEMA $_ AUTHORIZATION $_; SELECT '$_'::regrole::oid") } qw(honest staging replying relaying);
for my $owner (sort keys %owner) {
    $neighbour->run_as($owner, "CREATE TABLE $owner.news (id int PRIMARY KEY, team text); SELECT clairon.watch('$owner.news', 'TEAM', 'team', ack_required => true)");
}

# Rows to the group: the first uses the whole account, and the second is denied.
sub insert { my ($owner, @ids) = @_; return $neighbour->run_as($owner, "INSERT INTO $owner.news VALUES " . join ', ', map { "($_, 'all')" } @ids) }
sub left { my ($owner) = @_; return ($store->execute('HGET', $store->shared('owner_pairs'), $owner{$owner}) // 'no account') =~ s/\.0* .*//r }

sub denied
{
    my ($owner) = @_;
    return $pg->safe_psql('postgres', qq{SELECT coalesce(sum(changes), 0) FROM clairon.status, jsonb_to_recordset(denied) AS d (owner name, changes bigint)
        WHERE owner = '$owner'});
}

sub is_counted_once
{
    my ($owner, $what) = @_;
    $neighbour->delay_of_row;
    wait_until("$what: the denial is reported", sub { denied($owner) > 0 });
    is(denied($owner), 1, "$what: the denied row is counted once");
    cmp_ok(abs(left($owner) - ($LIMIT - $MEMBERS - 1 + 16)), '<', $LIMIT, "$what: the account is charged once");
    return;
}

insert('honest', 1, 2);
is_counted_once('honest', 'without a fault');

$late->hold(staging => $late->script('stage'));
insert('staging', 1, 2);
$late->wait_held('staging');
$store->kill9;
$store->start;
$late->release('staging');
is_counted_once('staging', 'killed while users are written');

insert('replying', 1);
wait_until('the first row is pending', sub { $store->pending == 3 });
$late->hold(replying => $late->script('ingest'));
insert('replying', 2);
$late->wait_held('replying');
$store->kill9;
$store->start;
$late->release('replying');
is_counted_once('replying', 'killed before the reply');
is($relay->metric('clairon_denied_total{reason="pairs"}'), 3, 'no denial is counted twice');
wait_until('the other row of each owner is pending', sub { $store->pending == 3 });
pass('and stored once');

insert('relaying', 1);
wait_until('the first row is pending', sub { $store->pending == 4 });
$late->hold(relaying => $late->script('ingest'));
insert('relaying', 2);
$late->wait_held('relaying');
$relay->kill9;
$late->release('relaying');
$relay->start;
$relay->wait_ready;
$neighbour->{client} = $relay->client('alice');
$neighbour->{checked} = 0;
is_counted_once('relaying', 'the relay is killed before the reply');
done_testing();
