# Tests, with changing memberships and killed processes, that each notification is pending for exactly the members
# at its commit.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $ROWS  = 1500;
my @USERS = map { "u$_" } 1 .. 6;
my $SEED  = $ENV{CLAIRON_MEMBERS_SEED} // int(rand(1_000_000));
srand $SEED;
note "seed $SEED";

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, teams text[]);
    CREATE TABLE wanted (id int PRIMARY KEY, users text);
    INSERT INTO clairon.member VALUES ('TEAM', 'a', 'u1'), ('TEAM', 'a', 'u2'), ('TEAM', 'b', 'u2'), ('TEAM', 'b', 'u3');
    SELECT clairon.watch('t', 'TEAM', 'teams', ack_required => true)});
my $store = Clairon::Test::store(fsync => 'everysec');
my $relay = Clairon::Test::relay($pg, $store);
is_deeply([ sort @{ $store->execute('SMEMBERS', $store->shared('members:TEAM:b')) } ], [qw(u2 u3)],
    'the first membership copy contains the existing members');

# The members of each row's teams at its commit. Most rows follow a change, in the same transaction or after it.
sub change
{
    my ($team, $user) = ((qw(a b))[ rand 2 ], $USERS[ rand @USERS ]);
    my $random = rand;
    return "DELETE FROM clairon.member WHERE target = '$team' AND user_id = '$user';" if $random < 0.45;
    return "INSERT INTO clairon.member VALUES ('TEAM', '$team', '$user') ON CONFLICT DO NOTHING;" if $random < 0.9;
    return "UPDATE clairon.member SET target = CASE target WHEN 'a' THEN 'b' ELSE 'a' END WHERE user_id = '$user'"
      . ' AND (SELECT count(*) FROM clairon.member m WHERE m.user_id = member.user_id) = 1;';
}
my $script = Clairon::Test::scratch() . '/rows.sql';
my $text   = '';
for my $id (1 .. $ROWS)
{
    my $teams = ('{a}', '{b}', '{a,b}')[ rand 3 ];
    $text .= 'BEGIN; ' . (rand() < 0.7 ? change() : '') . (rand() < 0.1 ? 'SAVEPOINT s; ' . change() . ' ROLLBACK TO s; ' : '')
      . " INSERT INTO t VALUES ($id, '$teams'); INSERT INTO wanted SELECT $id, string_agg(DISTINCT user_id, ' ' ORDER BY user_id)"
      . " FROM clairon.member WHERE target = ANY ('$teams'); " . (rand() < 0.05 ? 'ROLLBACK' : 'COMMIT') . ";\n";
}
PostgreSQL::Test::Utils::append_to_file($script, $text);
my $writer = Clairon::Test::writer($pg, $script);
for my $part (1 .. 6)
{
    my $most = $part * $ROWS / 8;
    wait_until("$most rows are stored", sub { (eval { $store->stored } // 0) >= $most });
    if    ($part % 3 == 1) { $relay->kill9; $relay->start }
    elsif ($part % 3 == 2) { $store->kill9; $store->start }
    else                   { $pg->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication') }
}
$writer->finish;
$pg->stop('immediate');
$pg->start;
$relay->restart;
my %wanted = map { my ($id, $users) = split /\|/, $_, -1; ($id => $users) } split /\n/, $pg->safe_psql('postgres', 'SELECT * FROM wanted');
wait_until('all rows are stored', sub { $store->stored >= keys %wanted });

my %found;
for my $entry ($store->entries)
{
    my ($id) = $entry->{data} =~ /"after":\{"id":(\d+)/;
    my %state = @{ $store->execute('HGETALL', $store->shared("ack:$entry->{id}")) };
    $found{$id} = join ' ', sort keys %state;
}
cmp_ok(scalar(keys %found), '>', $ROWS / 2, 'most rows are committed');
is_deeply(\%found, \%wanted, 'each notification is pending for exactly the members at its commit');
my %now = map { $_ => 1 } split /\n/, $pg->safe_psql('postgres', q{SELECT target || ' ' || user_id FROM clairon.member});
my %kept = map { my $team = $_; map { ("$team $_" => 1) } @{ $store->execute('SMEMBERS', $store->shared("members:TEAM:$team")) } } qw(a b);
is_deeply(\%kept, \%now, 'the store has the final memberships');

done_testing();
