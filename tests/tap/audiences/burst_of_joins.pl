# Tests that a burst of membership changes reaches connected users, keeps the control stream short, and delays a
# neighbour no longer than as many rows.
use strict;
use warnings;

use Clairon::Test qw(amount wait_until of_mark);
use Test::More;
use Time::HiRes qw(time);

my $JOINS = amount(30_000, 100_000);
my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $control = $store->shared('control');
$pg->safe_psql('postgres', q{
    CREATE TABLE other (id bigserial PRIMARY KEY, owner text NOT NULL);
    SELECT clairon.watch('other', 'USER', 'owner');});
my ($alice, $member) = map { $relay->client($_) } qw(alice m77);

# Runs a statement, and returns the seconds until a notification that follows it arrives at alice.
sub seconds_behind
{
    my ($what, $sql) = @_;
    $pg->safe_psql('postgres', $sql);
    my $began = time;
    $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{alice}', '{\"mark\": \"$what\"}')");
    $alice->run_until("the notification behind $what arrives", sub { of_mark($alice, $what) }, 120);
    my $seconds = time - $began;
    note sprintf '%s: %.2f s', $what, $seconds;
    return $seconds;
}

my $honest = seconds_behind('rows', "INSERT INTO other (owner) SELECT 'm' || i FROM generate_series(1, $JOINS) i");
my $joins = seconds_behind('joins', "INSERT INTO clairon.member SELECT 'TEAM', 't1', 'm' || i FROM generate_series(1, $JOINS) i");
cmp_ok($joins, '<', 2 * $honest + 1, 'joins delay a neighbour no longer than as many rows');
is($store->execute('SCARD', $store->shared('members:TEAM:t1')), $JOINS, 'all memberships are stored');
my $entries = $store->execute('XLEN', $control);
cmp_ok($entries, '<=', $JOINS / 40, "many changes share an entry of the control stream: $entries entries");
my @first = @{ $store->execute('XRANGE', $control, '-', '+', 'COUNT', 1)->[0][1] };
cmp_ok(scalar(grep { $_ eq 'change' } @first), '<=', 100, 'an entry has a limited number of changes');

$pg->safe_psql('postgres', q{SELECT clairon.notify('TEAM', '{t1}', '{"mark": "for the team"}')});
$member->run_until('a connected user receives notifications of the new group', sub { of_mark($member, 'for the team') });
is(scalar(of_mark($alice, 'for the team')), 0, 'another user does not');

# Removals, and joins again, in one transaction: the last change counts.
$pg->safe_psql('postgres', q{
    BEGIN;
    DELETE FROM clairon.member WHERE user_id IN ('m77', 'm78');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'm78');
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'alice');
    COMMIT;});
$pg->safe_psql('postgres', q{SELECT clairon.notify('TEAM', '{t1}', '{"mark": "after the changes"}')});
$alice->run_until('a user who joined receives notifications', sub { of_mark($alice, 'after the changes') });
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{m77}', '{"mark": "end"}')});
$member->run_until('a later notification arrives', sub { of_mark($member, 'end') });
is(scalar(of_mark($member, 'after the changes')), 0, 'a user who left receives none');
is($store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'm78'), 1, 'a user who left and joined again is a member');

done_testing();
