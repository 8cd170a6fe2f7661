# Tests that a connected session loses access to memberships that end while no slot exists.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, team text);
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'leaves'), ('TEAM', 't1', 'stays'), ('TEAM', 't2', 'leaves');
    SELECT clairon.watch('t', 'TEAM', 'team')});
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store);
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'gate.ping' => '1h' });
my $row   = 0;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub insert { my ($team) = @_; sql(sprintf q{INSERT INTO t VALUES (%d, '%s')}, ++$row, $team); return $row }
sub rows { my ($client) = @_; return [ map { $_->{payload}{after}{id} } $client->notifications ] }

my ($leaves, $stays) = map { $gate->client($_) } qw(leaves stays);
my $both = insert('t1');
$_->wait_row($both) for $leaves, $stays;

# The slot is dropped, and memberships change before it is recreated.
$feed->stop;
my $slot = sql('SELECT slot_name FROM pg_replication_slots');
wait_until('the slot is inactive', sub { sql('SELECT count(*) FROM pg_replication_slots WHERE active') == 0 });
sql(qq{DELETE FROM clairon.member WHERE user_id = 'leaves' AND target = 't1'; SELECT pg_drop_replication_slot('$slot')});
$feed->start;
$feed->wait_ready;
my $theirs = insert('t1');
my $own    = insert('t2');
$stays->wait_row($theirs);
$leaves->wait_row($own);
is_deeply(rows($leaves), [ $both, $own ], 'a former member receives only notifications for the remaining memberships');
is_deeply(rows($stays), [ $both, $theirs ], 'a remaining member receives the notification');
is($_->wait_for('gap')->{why}, 'epoch', 'both users receive a gap') for $leaves, $stays;

done_testing();
