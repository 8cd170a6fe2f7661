# Tests that DDL, or a change of a rule, causes clients with the list to reload it, on every relay. After the last
# change, the list equals the table, and a list without its table or rule is denied.
use strict;
use warnings;

use Clairon::Test;
use JSON ();
use Test::More;

my $pg     = Clairon::Test::postgresql('main');
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay' });
my $next   = 10;
my $json   = JSON->new->canonical;

sub execute { my ($sql) = @_; return $pg->safe_psql('postgres', $sql) }

# Returns the rows of a reply in order, or its error code.
sub request
{
    my ($client, $source) = @_;
    my $r = ++$next;
    $client->send({ t => 'rows', r => $r, source => $source });
    my $reply = $client->wait_for(sub { ($_[0]{r} // 0) == $r });
    return $reply->{code} if $reply->{t} eq 'err';
    return join ' ', sort map { $json->encode($_) } @{ $reply->{rows} };
}

sub truth
{
    my ($table) = @_;
    return join ' ', sort map { $json->encode($json->decode($_)) } split /\n/, execute("SELECT clairon.rows('$table', 'u1')");
}

sub reloads { my ($client, $source) = @_; return scalar grep { $_->{t} eq 'reload' && $_->{source} eq $source } @{ $client->{messages} } }

# Checks that `command` on the table `t` sends reload to both clients, and with `denied`, that the list is denied
# afterwards.
sub check
{
    my ($command, %of) = @_;
    execute(q{DROP TABLE IF EXISTS t, t_b CASCADE; DROP SCHEMA IF EXISTS moved CASCADE}
          . ($of{partitioned}
            ? q{; CREATE TABLE t (id int PRIMARY KEY, owner text, v int) PARTITION BY RANGE (id);
                CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (10); ALTER TABLE t_a REPLICA IDENTITY FULL;
                CREATE TABLE t_b (LIKE t INCLUDING ALL); ALTER TABLE t_b REPLICA IDENTITY FULL; INSERT INTO t_b VALUES (11, 'u1', 11)}
            : q{; CREATE TABLE t (id int PRIMARY KEY, owner text, v int)}));
    execute(q{ALTER TABLE t REPLICA IDENTITY FULL; INSERT INTO t VALUES (1, 'u1', 1), (2, 'u1', 2), (3, 'u2', 3);
        SELECT clairon.watch('t', 'USER', 'owner', live => true)});
    my @clients = ($first->client('u1'), $second->client('u1'));
    my $before  = truth('t');
    is(request($_, 't'), $before, "$command: the list equals the table before the command") for @clients;
    my @known = map { reloads($_, 't') } @clients;
    execute($command);
    $clients[$_]->run_until("the reload of $command arrives", sub { reloads($clients[$_], 't') > $known[$_] }) for 0, 1;
    my $after = $of{denied} ? 103 : truth('t');
    isnt($after, $before, "$command: the rows change");
    is(request($_, 't'), $after, $of{denied} ? "$command: the list is denied" : "$command: the list equals the table after the command") for @clients;
    $_->close for @clients;
    return;
}

check('ALTER TABLE t ADD w int DEFAULT 5');
check(q{ALTER TABLE t ALTER v TYPE text USING 'x' || v});
check('ALTER TABLE t RENAME v TO vv');
check('ALTER TABLE t DROP v');
check(q{SELECT clairon.watch('t', 'USER', 'owner', live => true, columns => '{id,v}')});
check(q{SELECT clairon.watch('t', 'USER', 'owner', live => true, only_when => 'v > 1')});
check(q{SELECT clairon.watch('t', 'USER', '=u1', live => true)});
check(q{SELECT clairon.watch('t', 'USER', '=u2', live => true)},         denied => 1);
check(q{SELECT clairon.watch('t', 'USER', 'owner')},                     denied => 1);
check(q{SELECT clairon.unwatch('t')},                                    denied => 1);
check('DROP TABLE t',                                                    denied => 1);
check('ALTER TABLE t RENAME TO moved',                                   denied => 1);
execute('DROP TABLE moved');
check('CREATE SCHEMA moved; ALTER TABLE t SET SCHEMA moved',             denied => 1);
check('ALTER TABLE t ATTACH PARTITION t_b FOR VALUES FROM (10) TO (20)', partitioned => 1);
check('ALTER TABLE t DETACH PARTITION t_a; DROP TABLE t_a',              partitioned => 1);
check('DROP TABLE t_a',                                                  partitioned => 1);

# A user whom a rule does not address does not learn from a reload that the rule exists. The reload of another list, which
# the same command causes, shows that it would have arrived.
execute(q{CREATE TABLE secret (id int PRIMARY KEY, team text); ALTER TABLE secret REPLICA IDENTITY FULL;
    SELECT clairon.watch('secret', 'TEAM', '=hr', name => 'hidden', live => true), clairon.watch('secret', 'TEAM', 'team', name => 'own', live => true)});
my $outsider = $first->client('u9');
for my $rule (qw(hidden own))
{
    $outsider->send({ t => 'rows', r => 900, source => 'secret', rule => $rule });
    my $reply = $outsider->wait_for(sub { ($_[0]{r} // 0) == 900 });
    is($reply->{code}, $rule eq 'hidden' ? 103 : undef, "the reply for the rule $rule");
    $outsider->{messages} = [];
}
execute('ALTER TABLE secret ADD salary int');
$outsider->run_until('the reload of the other list arrives', sub { reloads($outsider, 'secret') });
execute(q{SELECT clairon.watch('secret', 'TEAM', 'team', name => 'own', live => true, columns => '{id,team}')});
$outsider->run_until('its second reload arrives', sub { 2 <= grep { ($_->{rule} // '') eq 'own' } @{ $outsider->{messages} } });
is_deeply([ grep { ($_->{rule} // '') eq 'hidden' } @{ $outsider->{messages} } ], [], 'a denied user receives no reload after DDL');

done_testing();
