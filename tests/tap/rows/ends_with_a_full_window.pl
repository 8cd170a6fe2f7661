# Tests that a client that resumes receives the end of an earlier transaction that a full in-flight window delayed, also if
# the transaction is acknowledged meanwhile, and whichever line was the last one that it received.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    CREATE TABLE duty (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner');
    SELECT clairon.watch('duty', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $id = 100;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub ends { my ($client, $x) = @_; return scalar grep { $_->{t} eq 'end' && $_->{x} eq $x } @{ $client->{messages} } }
sub pass_barrier { my ($client) = @_; my $r = ++$id; $client->send({ t => 'barrier', r => $r }); return $client->wait_for(sub { ($_[0]{r} // 0) == $r }) }

# The window of a new client has room for a part of the first transaction.
my ($first) = split /\n/, sql(q{INSERT INTO duty VALUES (1, 'u1'), (2, 'u1') RETURNING pg_current_xact_id()});
my $probe = $relay->client('u2');
pass_barrier($probe);
my $client = $relay->client('u1', win => 1, ends => JSON::true);
$client->wait_row(1);
my $of_pending = $client->pos;
sql(q{INSERT INTO t VALUES (3, 'u1')});
sql(q{INSERT INTO t VALUES (4, 'u1')});
$client->wait_row(4);
$client->wait_for(sub { $_[0]{t} eq 'end' });
is(ends($client, $first), 0, 'the end of the first transaction waits for the pending list');
my %pos_of = (
    'the notification of the first transaction' => $of_pending,
    map { ($_->{t} eq 'end' ? "the end of transaction $_->{x}" : "row $_->{n}{payload}{after}{id}") => $_->{pos} }
        grep { $_->{t} eq 'end' || $_->{t} eq 'msg' && $_->{n}{payload}{after}{id} > 1 } @{ $client->{messages} });
$client->close;

# Another session acknowledges it.
my $other = $relay->client('u1');
$other->wait_row(2);
$other->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} <= 2 } $other->notifications);
wait_until('the acknowledgements are stored', sub { $store->pending == 0 });
$other->close;

for my $line (sort keys %pos_of)
{
    my $resumed = $relay->client('u1', win => 64, ends => JSON::true, pos => $pos_of{$line});
    pass_barrier($resumed);
    is($resumed->wait_for('connected')->{resumed}, JSON::true, "the client resumes behind $line");
    is(ends($resumed, $first), 1, "it receives the end of the first transaction behind $line");
    $resumed->close;
}

done_testing();
